// Constants and movements of data.

// case iota
func.func public @main() -> (tensor<4x5xi32>, tensor<4x5xf32>) {
  %0 = stablehlo.iota dim = 0 : tensor<4x5xi32>
  %1 = stablehlo.iota dim = 1 : tensor<4x5xf32>
  return %0, %1 : tensor<4x5xi32>, tensor<4x5xf32>
}

// case broadcast_in_dim repeats dimensions of size 1
func.func public @main() -> tensor<2x3x2xi32> {
  %x = stablehlo.constant dense<[[1, 2, 3]]> : tensor<1x3xi32>
  %r = stablehlo.broadcast_in_dim %x, dims = [2, 1] : (tensor<1x3xi32>) -> tensor<2x3x2xi32>
  return %r : tensor<2x3x2xi32>
}

// case broadcast_in_dim in another order
func.func public @main() -> tensor<3x2xi32> {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %r = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  return %r : tensor<3x2xi32>
}

// case broadcast puts dimensions in front
func.func public @main() -> tensor<2x3xi32> {
  // gives: s32[2,3] {{1, 2, 3}, {1, 2, 3}}
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %r = "stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: 2>} : (tensor<3xi32>) -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// case reshape, transpose and reverse
func.func public @main() -> (tensor<3x2xi32>, tensor<3x2xi32>, tensor<2x3xi32>) {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %0 = stablehlo.reshape %x : (tensor<2x3xi32>) -> tensor<3x2xi32>
  %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  %2 = stablehlo.reverse %x, dims = [1] : tensor<2x3xi32>
  return %0, %1, %2 : tensor<3x2xi32>, tensor<3x2xi32>, tensor<2x3xi32>
}

// case concatenate
func.func public @main() -> tensor<4x2xi64> {
  %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi64>
  %y = stablehlo.constant dense<[[7, 8]]> : tensor<1x2xi64>
  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<3x2xi64>, tensor<1x2xi64>) -> tensor<4x2xi64>
  return %r : tensor<4x2xi64>
}

// case slice with steps
func.func public @main() -> tensor<2x2xi64> {
  %x = stablehlo.constant dense<[[0, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]]> : tensor<3x6xi64>
  %r = stablehlo.slice %x [0:3:2, 2:6:3] : (tensor<3x6xi64>) -> tensor<2x2xi64>
  return %r : tensor<2x2xi64>
}

// case pad with edges and between
func.func public @main() -> tensor<5x9xi32> {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %v = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.pad %x, %v, low = [0, 1], high = [2, 1], interior = [1, 2] : (tensor<2x3xi32>, tensor<i32>) -> tensor<5x9xi32>
  return %r : tensor<5x9xi32>
}

// case pad takes away
func.func public @main() -> tensor<1x2xi32> {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %v = stablehlo.constant dense<9> : tensor<i32>
  %r = stablehlo.pad %x, %v, low = [-1, 0], high = [0, -1], interior = [0, 0] : (tensor<2x3xi32>, tensor<i32>) -> tensor<1x2xi32>
  return %r : tensor<1x2xi32>
}

// case dynamic_slice stays inside
func.func public @main() -> tensor<2x2xi32> {
  %x = stablehlo.constant dense<[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]> : tensor<4x4xi32>
  %i = stablehlo.constant dense<-1> : tensor<i64>
  %j = stablehlo.constant dense<3> : tensor<i64>
  %r = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 2] : (tensor<4x4xi32>, tensor<i64>, tensor<i64>) -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}

// case dynamic_update_slice
func.func public @main() -> tensor<4x4xi32> {
  %x = stablehlo.constant dense<1> : tensor<4x4xi32>
  %u = stablehlo.constant dense<7> : tensor<2x3xi32>
  %i = stablehlo.constant dense<1> : tensor<i64>
  %j = stablehlo.constant dense<4> : tensor<i64>
  %r = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<4x4xi32>, tensor<2x3xi32>, tensor<i64>, tensor<i64>) -> tensor<4x4xi32>
  return %r : tensor<4x4xi32>
}

// case get_dimension_size
func.func public @main() -> tensor<i32> {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %r = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x3xi64>) -> tensor<i32>
  return %r : tensor<i32>
}

// case tuple and get_tuple_element
func.func public @main() -> (tensor<2xf64>, tensor<i64>) {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf64>
  %y = stablehlo.constant dense<3> : tensor<i64>
  %0 = stablehlo.tuple %y : tuple<tensor<i64>>
  %1 = stablehlo.tuple %x, %0 : tuple<tensor<2xf64>, tuple<tensor<i64>>>
  %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<2xf64>, tuple<tensor<i64>>>) -> tensor<2xf64>
  %3 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2xf64>, tuple<tensor<i64>>>) -> tuple<tensor<i64>>
  %4 = stablehlo.get_tuple_element %3[0] : (tuple<tensor<i64>>) -> tensor<i64>
  return %2, %4 : tensor<2xf64>, tensor<i64>
}

// case dynamic operations on known shapes
func.func public @main() -> (tensor<3x2xi32>, tensor<2x3x2xi32>, tensor<4x5xi64>, tensor<3x6xi32>, tensor<1x2xi32>) {
  // gives: s32[3,2] {{1, 2}, {3, 4}, {5, 6}}; s32[2,3,2] {{{1, 1}, {2, 2}, {3, 3}}, {{1, 1}, {2, 2}, {3, 3}}}; s64[4,5] {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {2, 2, 2, 2, 2}, {3, 3, 3, 3, 3}}; s32[3,6] {{0, 1, 0, 2, 0, 3}, {0, 4, 0, 5, 0, 6}, {0, 0, 0, 0, 0, 0}}; s32[1,2] {{4, 6}}
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %o = stablehlo.constant dense<[[1, 2, 3]]> : tensor<1x3xi32>
  %s0 = stablehlo.constant dense<[3, 2]> : tensor<2xi64>
  %0 = stablehlo.dynamic_reshape %x, %s0 : (tensor<2x3xi32>, tensor<2xi64>) -> tensor<3x2xi32>
  %s1 = stablehlo.constant dense<[2, 3, 2]> : tensor<3xi64>
  %1 = stablehlo.dynamic_broadcast_in_dim %o, %s1, dims = [2, 1] : (tensor<1x3xi32>, tensor<3xi64>) -> tensor<2x3x2xi32>
  %s2 = stablehlo.constant dense<[4, 5]> : tensor<2xi64>
  %2 = stablehlo.dynamic_iota %s2, dim = 0 : (tensor<2xi64>) -> tensor<4x5xi64>
  %v = stablehlo.constant dense<0> : tensor<i32>
  %lo = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
  %hi = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %in = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
  %3 = stablehlo.dynamic_pad %x, %v, %lo, %hi, %in : (tensor<2x3xi32>, tensor<i32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x6xi32>
  %b = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
  %e = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %t = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %4 = stablehlo.real_dynamic_slice %x, %b, %e, %t : (tensor<2x3xi32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<1x2xi32>
  return %0, %1, %2, %3, %4 : tensor<3x2xi32>, tensor<2x3x2xi32>, tensor<4x5xi64>, tensor<3x6xi32>, tensor<1x2xi32>
}
