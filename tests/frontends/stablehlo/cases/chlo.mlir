// CHLO: broadcasts, predicates and functions with known values.

// case broadcast_add of a vector and a matrix
func.func public @main() -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // gives: f32[2,3] {{2, 4, 6}, {5, 7, 9}}; f32[2,3] {{11, 12, 13}, {24, 25, 26}}
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %z = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %0 = chlo.broadcast_add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = chlo.broadcast_add %x, %z {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// case broadcast_compare and broadcast_select
func.func public @main() -> (tensor<2x2xi1>, tensor<2x2xi32>) {
  // gives: pred[2,2] {{0, 1}, {1, 1}}; s32[2,2] {{7, 2}, {3, 4}}
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %y = stablehlo.constant dense<1> : tensor<i32>
  %s = stablehlo.constant dense<7> : tensor<i32>
  %0 = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x2xi32>, tensor<i32>) -> tensor<2x2xi1>
  %1 = chlo.broadcast_select %0, %x, %s : (tensor<2x2xi1>, tensor<2x2xi32>, tensor<i32>) -> tensor<2x2xi32>
  return %0, %1 : tensor<2x2xi1>, tensor<2x2xi32>
}

// case is_inf and its two sides
func.func public @main() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  // gives: pred[4] {0, 1, 1, 0}; pred[4] {0, 1, 0, 0}; pred[4] {0, 0, 1, 0}
  %x = stablehlo.constant dense<[1.0, 0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<4xf32>
  %0 = chlo.is_inf %x : tensor<4xf32> -> tensor<4xi1>
  %1 = chlo.is_pos_inf %x : tensor<4xf32> -> tensor<4xi1>
  %2 = chlo.is_neg_inf %x : tensor<4xf32> -> tensor<4xi1>
  return %0, %1, %2 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// case constant_like, conj and square
func.func public @main() -> (tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>) {
  // gives: f32[2] {3.5, 3.5}; c64[2] {(1, -2), (3, 4)}; f32[2] {1, 4}
  %x = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %z = stablehlo.constant dense<[(1.0, 2.0), (3.0, -4.0)]> : tensor<2xcomplex<f32>>
  %0 = "chlo.constant_like"(%x) {value = 3.5 : f32} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = chlo.conj %z : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>
  %2 = chlo.square %x : tensor<2xf32> -> tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xcomplex<f32>>, tensor<2xf32>
}

// case top_k
func.func public @main() -> (tensor<2xf32>, tensor<2xi32>) {
  // gives: f32[2] {5, 4}; s32[2] {2, 0}
  %x = stablehlo.constant dense<[4.0, 1.0, 5.0, 4.0]> : tensor<4xf32>
  %0:2 = chlo.top_k(%x, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}

// case top_k as a composite
func.func private @never(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = stablehlo.constant dense<0.0> : tensor<2xf32>
  %1 = stablehlo.constant dense<0> : tensor<2xi32>
  return %0, %1 : tensor<2xf32>, tensor<2xi32>
}
func.func public @main() -> (tensor<2xf32>, tensor<2xi32>) {
  // gives: f32[2] {5, 4}; s32[2] {2, 0}
  %x = stablehlo.constant dense<[4.0, 1.0, 5.0, 4.0]> : tensor<4xf32>
  %0:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64, largest = true}, decomposition = @never} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}

// case next_after
func.func public @main() -> tensor<6xf32> {
  // gives: f32[6] {1.00000012, 0.99999994, 1e-45, -1e-45, 2, nan}
  %x = stablehlo.constant dense<[1.0, 1.0, 0.0, 0.0, 2.0, 1.0]> : tensor<6xf32>
  %y = stablehlo.constant dense<[2.0, 0.0, 1.0, -1.0, 2.0, 0x7FC00000]> : tensor<6xf32>
  %0 = chlo.broadcast_next_after %x, %y : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// case mulhi
func.func public @main() -> tensor<2xui8> {
  // gives: u8[2] {156, 0}
  %x = stablehlo.constant dense<[200, 3]> : tensor<2xui8>
  %y = stablehlo.constant dense<[200, 5]> : tensor<2xui8>
  %0 = "chlo.mulhi"(%x, %y) : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xui8>
  return %0 : tensor<2xui8>
}

// case ragged_dot
func.func public @main() -> tensor<3x1xf32> {
  // gives: f32[3,1] {{3}, {70}, {110}}
  %l = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %r = stablehlo.constant dense<[[[1.0], [1.0]], [[10.0], [10.0]]]> : tensor<2x2x1xf32>
  %g = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = "chlo.ragged_dot"(%l, %r, %g) {ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>} : (tensor<3x2xf32>, tensor<2x2x1xf32>, tensor<2xi32>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// case scan
func.func public @main() -> (tensor<4xf32>, tensor<f32>) {
  // gives: f32[4] {1, 3, 6, 10}; f32[] 10
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = "chlo.scan"(%x, %z) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s, %s : tensor<f32>, tensor<f32>
  }) {dimension = 0 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>} : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<f32>
}
