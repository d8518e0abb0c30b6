package main

import (
	"fmt"
	"log"
	"step"
)

func main() {
	state, x, twice := make([]float32, 4), []float32{1, 2, 3}, make([]float32, 4)
	workspace := step.NewWorkspace()
	for k := 0; k < 3; k++ {
		if err := step.Call(state, x, state, twice, workspace); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.2f %.2f\n", state[0], twice[3])
	}
	if err := step.Call(state, x[:2], state, twice, workspace); err == nil {
		log.Fatal("a short array is taken")
	}
}
