// MHLO: the operations of StableHLO under another name, and a few more.

// case elementwise, compare, dot
func.func public @main() -> (tensor<2x2xf32>, tensor<2x2xi1>) {
  // gives: f32[2,2] {{7, 10}, {15, 22}}; pred[2,2] {{1, 1}, {1, 1}}
  %x = mhlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = "mhlo.dot_general"(%x, %x) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#mhlo<precision HIGHEST>, #mhlo<precision DEFAULT>]} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "mhlo.compare"(%0, %x) {comparison_direction = #mhlo<comparison_direction GT>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xi1>
  %2 = mhlo.copy %0 : tensor<2x2xf32>
  return %2, %1 : tensor<2x2xf32>, tensor<2x2xi1>
}

// case a fusion and a reduction
func.func public @main() -> tensor<f32> {
  // gives: f32[] 20
  %x = mhlo.constant dense<[1.0, 2.0, 7.0]> : tensor<3xf32>
  %z = mhlo.constant dense<0.0> : tensor<f32>
  %0 = "mhlo.fusion"(%x) ({
    ^bb0(%a: tensor<3xf32>):
      %b = mhlo.add %a, %a : tensor<3xf32>
      "mhlo.return"(%b) : (tensor<3xf32>) -> ()
  }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = mhlo.reduce(%0 init: %z) applies mhlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// case gather and top-k
func.func public @main() -> (tensor<2xi32>, tensor<2xf32>, tensor<2xi32>) {
  // gives: s32[2] {30, 10}; f32[2] {3, 2}; s32[2] {2, 1}
  %x = mhlo.constant dense<[10, 20, 30]> : tensor<3xi32>
  %i = mhlo.constant dense<[[2], [0]]> : tensor<2x1xi32>
  %0 = "mhlo.gather"(%x, %i) {dimension_numbers = #mhlo.gather<collapsed_slice_dims = [0], index_vector_dim = 1, offset_dims = [], start_index_map = [0]>, indices_are_sorted = false, slice_sizes = dense<1> : tensor<1xi64>} : (tensor<3xi32>, tensor<2x1xi32>) -> tensor<2xi32>
  %y = mhlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %1:2 = mhlo.topk(%y, k = 2, largest = true) : tensor<3xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %0, %1#0, %1#1 : tensor<2xi32>, tensor<2xf32>, tensor<2xi32>
}
