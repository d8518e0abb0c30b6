import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import java.lang.foreign.*;
import java.nio.file.Path;

public class Main {
  public static void main(String[] words) {
    try (Arena arena = Arena.ofConfined(); Step step = new Step(Path.of(words[0]))) {
      MemorySegment state = arena.allocate(JAVA_FLOAT, 4), twice = arena.allocate(JAVA_FLOAT, 4);
      MemorySegment x = arena.allocateFrom(JAVA_FLOAT, 1, 2, 3);
      for (int k = 0; k < 3; k++) {
        step.call(state, x, state, twice);
        System.out.printf("%.2f %.2f%n", state.getAtIndex(JAVA_FLOAT, 0), twice.getAtIndex(JAVA_FLOAT, 3));
      }
      try {
        step.call(state, x.asSlice(4), state, twice);
        throw new AssertionError("a short array is taken");
      } catch (IllegalArgumentException expected) {
      }
    }
  }
}
