// Loops, branches, calls, composites, tokens, random bits.

// case while with a captured value
func.func public @main() -> (tensor<i64>, tensor<i64>) {
  %i = stablehlo.constant dense<0> : tensor<i64>
  %s = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %ten = stablehlo.constant dense<10> : tensor<i64>
  %k = stablehlo.multiply %ten, %ten : tensor<i64>
  %0:2 = stablehlo.while(%a = %i, %b = %s) : tensor<i64>, tensor<i64>
   cond {
    %p = stablehlo.compare LT, %a, %ten : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %n = stablehlo.add %b, %k : tensor<i64>
    %m = stablehlo.add %a, %one : tensor<i64>
    stablehlo.return %m, %n : tensor<i64>, tensor<i64>
  }
  return %0#0, %0#1 : tensor<i64>, tensor<i64>
}

// case while inside of a branch inside of a while
func.func public @main() -> (tensor<i32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %x = stablehlo.constant dense<1.0> : tensor<f32>
  %y = stablehlo.add %x, %x : tensor<f32>
  %0:2 = stablehlo.while(%a = %zero, %b = %x) : tensor<i32>, tensor<f32>
   cond {
    %p = stablehlo.compare LT, %a, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %q = stablehlo.compare GT, %a, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c = "stablehlo.if"(%q) ({
      %d = stablehlo.while(%e = %b) : tensor<f32>
       cond {
        %h = stablehlo.constant dense<50.0> : tensor<f32>
        %p = stablehlo.compare LT, %e, %h : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %f = stablehlo.multiply %e, %y : tensor<f32>
        stablehlo.return %f : tensor<f32>
      }
      stablehlo.return %d : tensor<f32>
    }, {
      %g = stablehlo.add %b, %y : tensor<f32>
      stablehlo.return %g : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    %m = stablehlo.add %a, %one : tensor<i32>
    stablehlo.return %m, %c : tensor<i32>, tensor<f32>
  }
  return %0#0, %0#1 : tensor<i32>, tensor<f32>
}

// case case takes the last branch out of range
func.func public @main() -> (tensor<2xi64>, tensor<2xi64>) {
  %i = stablehlo.constant dense<-1> : tensor<i32>
  %x = stablehlo.constant dense<[0, 0]> : tensor<2xi64>
  %y = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %0:2 = "stablehlo.case"(%i) ({
    stablehlo.return %x, %x : tensor<2xi64>, tensor<2xi64>
  }, {
    stablehlo.return %y, %x : tensor<2xi64>, tensor<2xi64>
  }) : (tensor<i32>) -> (tensor<2xi64>, tensor<2xi64>)
  return %0#0, %0#1 : tensor<2xi64>, tensor<2xi64>
}

// case a function called twice
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %x : tensor<f32>
  return %0 : tensor<f32>
}
func.func public @main() -> tensor<f32> {
  %x = stablehlo.constant dense<3.0> : tensor<f32>
  %0 = func.call @twice(%x) : (tensor<f32>) -> tensor<f32>
  %1 = func.call @twice(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// case composite
func.func private @add_n(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<2xf32>
  %0 = stablehlo.add %x, %c : tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %0 = stablehlo.composite "test.add_n" %x {composite_attributes = {n = 2 : i64}, decomposition = @add_n, version = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// case optimization_barrier
func.func public @main() -> (tensor<f32>, tensor<i32>) {
  %x = stablehlo.constant dense<3.0> : tensor<f32>
  %y = stablehlo.constant dense<4> : tensor<i32>
  %0:2 = stablehlo.optimization_barrier %x, %y : tensor<f32>, tensor<i32>
  return %0#0, %0#1 : tensor<f32>, tensor<i32>
}

// case random bits of threefry
func.func public @main() -> (tensor<2xui64>, tensor<2x2xui64>) {
  // gives: u64[2] {1, 6}; u64[2,2] {{9236835810183407956, 16087790271692313299}, {18212823393184779219, 2658481902456610144}}
  %s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x2xui64>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<2x2xui64>
}

// case collectives of one device
func.func public @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<ui32>, tensor<ui32>) {
  // gives: f32[2] {1, 4}; f32[2] {1, 4}; f32[2] {1, 4}; f32[2] {1, 4}; u32[] 0; u32[] 0
  %x = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  %4 = stablehlo.replica_id : tensor<ui32>
  %5 = stablehlo.partition_id : tensor<ui32>
  return %0, %1, %2, %3, %4, %5 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<ui32>, tensor<ui32>
}

// case an operation in two halves
func.func public @main() -> tensor<4xf32> {
  // gives: f32[4] {2, 4, 6, 8}
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = "stablehlo.async_start"(%x) ({
    ^bb0(%a: tensor<4xf32>):
    %1 = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<4xf32>>
  %2 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  %3 = stablehlo.add %2, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}

// case a region reads what is made of constants around it
func.func public @main() -> tensor<f32> {
  %x = stablehlo.constant dense<[1.0, 2.0, 7.0]> : tensor<3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.constant dense<2.0> : tensor<f32>
  %b = stablehlo.add %a, %a : tensor<f32>
  %c = stablehlo.multiply %b, %a : tensor<f32>
  %0 = "stablehlo.reduce"(%x, %z) ({
    ^bb0(%d: tensor<f32>, %e: tensor<f32>):
      %f = stablehlo.minimum %e, %c : tensor<f32>
      %g = stablehlo.minimum %f, %b : tensor<f32>
      %h = stablehlo.add %d, %g : tensor<f32>
      stablehlo.return %h : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
