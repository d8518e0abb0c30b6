// Operations on each element, on floats, integers, booleans and complex numbers.

// case abs
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.abs %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case ceil
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.ceil %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case cosine
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.cosine %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case exponential
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.exponential %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case exponential_minus_one
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.exponential_minus_one %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case floor
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.floor %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case log
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[0.1, 0.5, 1.5, 2.5]> : tensor<4xf32>
  %r = stablehlo.log %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case log_plus_one
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-0.5, 0.0, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.log_plus_one %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case logistic
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.logistic %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case negate
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.negate %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case round_nearest_afz
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.round_nearest_afz %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case round_nearest_even
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.round_nearest_even %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case rsqrt
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[0.1, 0.5, 1.5, 2.5]> : tensor<4xf32>
  %r = stablehlo.rsqrt %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case sign
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.sign %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case sine
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.sine %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case sqrt
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[0.1, 0.5, 1.5, 2.5]> : tensor<4xf32>
  %r = stablehlo.sqrt %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case tan
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.tan %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case tanh
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.tanh %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case cbrt
func.func public @main() -> tensor<4xf32> {
  %x = stablehlo.constant dense<[-2.5, -0.5, 0.3, 1.5]> : tensor<4xf32>
  %r = stablehlo.cbrt %x : tensor<4xf32>
  return %r : tensor<4xf32>
}

// case abs of 3xi32
func.func public @main() -> tensor<3xi32> {
  %x = stablehlo.constant dense<[-3, 0, 7]> : tensor<3xi32>
  %r = stablehlo.abs %x : tensor<3xi32>
  return %r : tensor<3xi32>
}

// case negate of 3xi8
func.func public @main() -> tensor<3xi8> {
  %x = stablehlo.constant dense<[-128, 0, 7]> : tensor<3xi8>
  %r = stablehlo.negate %x : tensor<3xi8>
  return %r : tensor<3xi8>
}

// case sign of 3xi64
func.func public @main() -> tensor<3xi64> {
  %x = stablehlo.constant dense<[-3, 0, 7]> : tensor<3xi64>
  %r = stablehlo.sign %x : tensor<3xi64>
  return %r : tensor<3xi64>
}

// case not of 3xui8
func.func public @main() -> tensor<3xui8> {
  %x = stablehlo.constant dense<[0, 5, 255]> : tensor<3xui8>
  %r = stablehlo.not %x : tensor<3xui8>
  return %r : tensor<3xui8>
}

// case not of 3xi1
func.func public @main() -> tensor<3xi1> {
  %x = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %r = stablehlo.not %x : tensor<3xi1>
  return %r : tensor<3xi1>
}

// case popcnt of 3xui8
func.func public @main() -> tensor<3xui8> {
  %x = stablehlo.constant dense<[0, 5, 255]> : tensor<3xui8>
  %r = stablehlo.popcnt %x : tensor<3xui8>
  return %r : tensor<3xui8>
}

// case count_leading_zeros of 3xi16
func.func public @main() -> tensor<3xi16> {
  %x = stablehlo.constant dense<[0, 1, -1]> : tensor<3xi16>
  %r = stablehlo.count_leading_zeros %x : tensor<3xi16>
  return %r : tensor<3xi16>
}

// case exponential of 2xcomplex<f32>
func.func public @main() -> tensor<2xcomplex<f32>> {
  // gives: c64[2] {(-1.13120437, 2.47172666), (0.540302306, -0.841470985)}
  %x = stablehlo.constant dense<[(1.0,2.0),(0.0,-1.0)]> : tensor<2xcomplex<f32>>
  %r = stablehlo.exponential %x : tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// case log of 2xcomplex<f64>
func.func public @main() -> tensor<2xcomplex<f64>> {
  // gives: c128[2] {(0.8047189562170503, 1.1071487177940904), (0.11157177565710485, -1.1071487177940904)}
  %x = stablehlo.constant dense<[(1.0,2.0),(0.5,-1.0)]> : tensor<2xcomplex<f64>>
  %r = stablehlo.log %x : tensor<2xcomplex<f64>>
  return %r : tensor<2xcomplex<f64>>
}

// case negate of 2xcomplex<f32>
func.func public @main() -> tensor<2xcomplex<f32>> {
  // gives: c64[2] {(-1, -2), (-0.5, 1)}
  %x = stablehlo.constant dense<[(1.0,2.0),(0.5,-1.0)]> : tensor<2xcomplex<f32>>
  %r = stablehlo.negate %x : tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// case sine of 2xf64
func.func public @main() -> tensor<2xf64> {
  %x = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf64>
  %r = stablehlo.sine %x : tensor<2xf64>
  return %r : tensor<2xf64>
}

// case sqrt of 2xbf16
func.func public @main() -> tensor<2xbf16> {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xbf16>
  %r = stablehlo.sqrt %x : tensor<2xbf16>
  return %r : tensor<2xbf16>
}

// case tanh of 2xf16
func.func public @main() -> tensor<2xf16> {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf16>
  %r = stablehlo.tanh %x : tensor<2xf16>
  return %r : tensor<2xf16>
}

// case add of 3xi8
func.func public @main() -> tensor<3xi8> {
  %x = stablehlo.constant dense<[1, -2, 127]> : tensor<3xi8>
  %y = stablehlo.constant dense<[2, 2, 1]> : tensor<3xi8>
  %r = stablehlo.add %x, %y : tensor<3xi8>
  return %r : tensor<3xi8>
}

// case add of 2xi1
func.func public @main() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %y = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %r = stablehlo.add %x, %y : tensor<2xi1>
  return %r : tensor<2xi1>
}

// case add of 2xf32
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[1.5, 2.5]> : tensor<2xf32>
  %y = stablehlo.constant dense<[0.25, -1.0]> : tensor<2xf32>
  %r = stablehlo.add %x, %y : tensor<2xf32>
  return %r : tensor<2xf32>
}

// case add of 1xcomplex<f32>
func.func public @main() -> tensor<1xcomplex<f32>> {
  // gives: c64[1] {(1.5, 1)}
  %x = stablehlo.constant dense<[(1.0,2.0)]> : tensor<1xcomplex<f32>>
  %y = stablehlo.constant dense<[(0.5,-1.0)]> : tensor<1xcomplex<f32>>
  %r = stablehlo.add %x, %y : tensor<1xcomplex<f32>>
  return %r : tensor<1xcomplex<f32>>
}

// case subtract of 2xui8
func.func public @main() -> tensor<2xui8> {
  %x = stablehlo.constant dense<[1, 0]> : tensor<2xui8>
  %y = stablehlo.constant dense<[2, 5]> : tensor<2xui8>
  %r = stablehlo.subtract %x, %y : tensor<2xui8>
  return %r : tensor<2xui8>
}

// case multiply of 2xi8
func.func public @main() -> tensor<2xi8> {
  %x = stablehlo.constant dense<[100, -3]> : tensor<2xi8>
  %y = stablehlo.constant dense<[3, 7]> : tensor<2xi8>
  %r = stablehlo.multiply %x, %y : tensor<2xi8>
  return %r : tensor<2xi8>
}

// case multiply of 2xi1
func.func public @main() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %y = stablehlo.constant dense<[true, true]> : tensor<2xi1>
  %r = stablehlo.multiply %x, %y : tensor<2xi1>
  return %r : tensor<2xi1>
}

// case divide of 3xi32
func.func public @main() -> tensor<3xi32> {
  %x = stablehlo.constant dense<[7, -7, 8]> : tensor<3xi32>
  %y = stablehlo.constant dense<[2, 2, -3]> : tensor<3xi32>
  %r = stablehlo.divide %x, %y : tensor<3xi32>
  return %r : tensor<3xi32>
}

// case divide of 2xui8
func.func public @main() -> tensor<2xui8> {
  %x = stablehlo.constant dense<[7, 200]> : tensor<2xui8>
  %y = stablehlo.constant dense<[2, 3]> : tensor<2xui8>
  %r = stablehlo.divide %x, %y : tensor<2xui8>
  return %r : tensor<2xui8>
}

// case divide of 2xf32
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %y = stablehlo.constant dense<[3.0, 0.0]> : tensor<2xf32>
  %r = stablehlo.divide %x, %y : tensor<2xf32>
  return %r : tensor<2xf32>
}

// case remainder of 3xi32
func.func public @main() -> tensor<3xi32> {
  %x = stablehlo.constant dense<[7, -7, 8]> : tensor<3xi32>
  %y = stablehlo.constant dense<[2, 2, -3]> : tensor<3xi32>
  %r = stablehlo.remainder %x, %y : tensor<3xi32>
  return %r : tensor<3xi32>
}

// case remainder of 2xf64
func.func public @main() -> tensor<2xf64> {
  %x = stablehlo.constant dense<[7.5, -7.5]> : tensor<2xf64>
  %y = stablehlo.constant dense<[2.0, 2.0]> : tensor<2xf64>
  %r = stablehlo.remainder %x, %y : tensor<2xf64>
  return %r : tensor<2xf64>
}

// case power of 3xi64
func.func public @main() -> tensor<3xi64> {
  %x = stablehlo.constant dense<[2, -3, 2]> : tensor<3xi64>
  %y = stablehlo.constant dense<[10, 3, 0]> : tensor<3xi64>
  %r = stablehlo.power %x, %y : tensor<3xi64>
  return %r : tensor<3xi64>
}

// case power of 2xf32
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %y = stablehlo.constant dense<[0.5, -2.0]> : tensor<2xf32>
  %r = stablehlo.power %x, %y : tensor<2xf32>
  return %r : tensor<2xf32>
}

// case maximum of 2xi32
func.func public @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[1, -2]> : tensor<2xi32>
  %y = stablehlo.constant dense<[0, 5]> : tensor<2xi32>
  %r = stablehlo.maximum %x, %y : tensor<2xi32>
  return %r : tensor<2xi32>
}

// case minimum of 2xf32
func.func public @main() -> tensor<2xf32> {
  %x = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %y = stablehlo.constant dense<[0.0, 5.0]> : tensor<2xf32>
  %r = stablehlo.minimum %x, %y : tensor<2xf32>
  return %r : tensor<2xf32>
}

// case maximum of 2xi1
func.func public @main() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %y = stablehlo.constant dense<[false, false]> : tensor<2xi1>
  %r = stablehlo.maximum %x, %y : tensor<2xi1>
  return %r : tensor<2xi1>
}

// case and of 2xui16
func.func public @main() -> tensor<2xui16> {
  %x = stablehlo.constant dense<[12, 7]> : tensor<2xui16>
  %y = stablehlo.constant dense<[10, 9]> : tensor<2xui16>
  %r = stablehlo.and %x, %y : tensor<2xui16>
  return %r : tensor<2xui16>
}

// case or of 2xi16
func.func public @main() -> tensor<2xi16> {
  %x = stablehlo.constant dense<[12, 7]> : tensor<2xi16>
  %y = stablehlo.constant dense<[10, 9]> : tensor<2xi16>
  %r = stablehlo.or %x, %y : tensor<2xi16>
  return %r : tensor<2xi16>
}

// case xor of 2xi32
func.func public @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[12, 7]> : tensor<2xi32>
  %y = stablehlo.constant dense<[10, 9]> : tensor<2xi32>
  %r = stablehlo.xor %x, %y : tensor<2xi32>
  return %r : tensor<2xi32>
}

// case xor of 2xi1
func.func public @main() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %y = stablehlo.constant dense<[true, true]> : tensor<2xi1>
  %r = stablehlo.xor %x, %y : tensor<2xi1>
  return %r : tensor<2xi1>
}

// case shift_left of 3xi64
func.func public @main() -> tensor<3xi64> {
  %x = stablehlo.constant dense<[-1, 0, 1]> : tensor<3xi64>
  %y = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %r = stablehlo.shift_left %x, %y : tensor<3xi64>
  return %r : tensor<3xi64>
}

// case shift_right_arithmetic of 3xi64
func.func public @main() -> tensor<3xi64> {
  %x = stablehlo.constant dense<[-1, 0, 8]> : tensor<3xi64>
  %y = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %r = stablehlo.shift_right_arithmetic %x, %y : tensor<3xi64>
  return %r : tensor<3xi64>
}

// case shift_right_logical of 3xi64
func.func public @main() -> tensor<3xi64> {
  %x = stablehlo.constant dense<[-1, 0, 8]> : tensor<3xi64>
  %y = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi64>
  %r = stablehlo.shift_right_logical %x, %y : tensor<3xi64>
  return %r : tensor<3xi64>
}

// case atan2 of 3xf64
func.func public @main() -> tensor<3xf64> {
  %x = stablehlo.constant dense<[0.0, 1.0, -1.0]> : tensor<3xf64>
  %y = stablehlo.constant dense<[0.0, 0.0, 0.0]> : tensor<3xf64>
  %r = stablehlo.atan2 %x, %y : tensor<3xf64>
  return %r : tensor<3xf64>
}

// case compare EQ
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare EQ, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare NE
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare NE, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare GE
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare GE, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare GT
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare GT, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare LE
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare LE, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare LT
func.func public @main() -> tensor<4xi1> {
  %x = stablehlo.constant dense<[1.0, 3.0, 2.0, 0x7FC00000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[1.0, 2.0, 4.0, 1.0]> : tensor<4xf32>
  %r = stablehlo.compare LT, %x, %y, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare by total order
func.func public @main() -> tensor<4xi1> {
  // gives: pred[4] {1, 1, 0, 0}
  %x = stablehlo.constant dense<[-0.0, -1.0, 0x7FC00000, 0.0]> : tensor<4xf32>
  %y = stablehlo.constant dense<[0.0, 0.0, 0x7F800000, -0.0]> : tensor<4xf32>
  %r = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// case compare unsigned
func.func public @main() -> tensor<2xi1> {
  %x = stablehlo.constant dense<[200, 3]> : tensor<2xui8>
  %y = stablehlo.constant dense<[100, 3]> : tensor<2xui8>
  %r = stablehlo.compare GT, %x, %y, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// case select by element
func.func public @main() -> tensor<2xi32> {
  %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %r = stablehlo.select %p, %x, %y : tensor<2xi1>, tensor<2xi32>
  return %r : tensor<2xi32>
}

// case select by a scalar
func.func public @main() -> tensor<2xi32> {
  %p = stablehlo.constant dense<false> : tensor<i1>
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %y = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %r = stablehlo.select %p, %x, %y : tensor<i1>, tensor<2xi32>
  return %r : tensor<2xi32>
}

// case clamp
func.func public @main() -> tensor<3xf32> {
  %l = stablehlo.constant dense<-1.0> : tensor<f32>
  %x = stablehlo.constant dense<[-3.0, 0.5, 7.0]> : tensor<3xf32>
  %h = stablehlo.constant dense<2.0> : tensor<f32>
  %r = stablehlo.clamp %l, %x, %h : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// case convert f32 to i32
func.func public @main() -> tensor<3xi32> {
  %x = stablehlo.constant dense<[-1.7, 2.2, 3.9]> : tensor<3xf32>
  %r = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// case convert i32 to f32
func.func public @main() -> tensor<3xf32> {
  %x = stablehlo.constant dense<[-1, 2, 3]> : tensor<3xi32>
  %r = stablehlo.convert %x : (tensor<3xi32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// case convert f32 to bf16
func.func public @main() -> tensor<3xbf16> {
  %x = stablehlo.constant dense<[1.00390625, 2.2, 3.9]> : tensor<3xf32>
  %r = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xbf16>
  return %r : tensor<3xbf16>
}

// case convert i1 to f64
func.func public @main() -> tensor<3xf64> {
  %x = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %r = stablehlo.convert %x : (tensor<3xi1>) -> tensor<3xf64>
  return %r : tensor<3xf64>
}

// case convert f32 to i1
func.func public @main() -> tensor<3xi1> {
  %x = stablehlo.constant dense<[0.0, -0.5, 3.9]> : tensor<3xf32>
  %r = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}

// case convert i32 to i8
func.func public @main() -> tensor<3xi8> {
  %x = stablehlo.constant dense<[300, -2, 3]> : tensor<3xi32>
  %r = stablehlo.convert %x : (tensor<3xi32>) -> tensor<3xi8>
  return %r : tensor<3xi8>
}

// case convert f64 to f8E4M3FN
func.func public @main() -> tensor<3xf8E4M3FN> {
  %x = stablehlo.constant dense<[1.06, 2.2, 3.9]> : tensor<3xf64>
  %r = stablehlo.convert %x : (tensor<3xf64>) -> tensor<3xf8E4M3FN>
  return %r : tensor<3xf8E4M3FN>
}

// case convert i8 to ui4
func.func public @main() -> tensor<3xui4> {
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi8>
  %r = stablehlo.convert %x : (tensor<3xi8>) -> tensor<3xui4>
  return %r : tensor<3xui4>
}

// case bitcast_convert to narrower
func.func public @main() -> tensor<2x4xui8> {
  %x = stablehlo.constant dense<[1.0, -2.5]> : tensor<2xf32>
  %r = stablehlo.bitcast_convert %x : (tensor<2xf32>) -> tensor<2x4xui8>
  return %r : tensor<2x4xui8>
}

// case bitcast_convert to wider
func.func public @main() -> tensor<2xi32> {
  %x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi16>
  %r = stablehlo.bitcast_convert %x : (tensor<2x2xi16>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// case complex, real and imag
func.func public @main() -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.constant dense<[3.0, -4.0]> : tensor<2xf32>
  %z = stablehlo.complex %x, %y : tensor<2xcomplex<f32>>
  %a = stablehlo.real %z : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %b = stablehlo.imag %z : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %c = stablehlo.abs %z : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// case is_finite
func.func public @main() -> tensor<3xi1> {
  %x = stablehlo.constant dense<[1.0, 0x7F800000, 0x7FC00000]> : tensor<3xf32>
  %r = stablehlo.is_finite %x : (tensor<3xf32>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}

// case reduce_precision
func.func public @main() -> tensor<3xf32> {
  %x = stablehlo.constant dense<[1.2345, 1.0e-30, 65520.0]> : tensor<3xf32>
  %r = stablehlo.reduce_precision %x, format = e5m10 : tensor<3xf32>
  return %r : tensor<3xf32>
}

// case maximum of complex numbers
// gives: c64[3] {(1, 3), (3, 1), (2, -1)}
func.func public @main() -> tensor<3xcomplex<f32>> {
  %x = stablehlo.constant dense<[(1.0, 2.0), (3.0, 1.0), (1.0, -1.0)]> : tensor<3xcomplex<f32>>
  %y = stablehlo.constant dense<[(1.0, 3.0), (2.0, 5.0), (2.0, -1.0)]> : tensor<3xcomplex<f32>>
  %r = stablehlo.maximum %x, %y : tensor<3xcomplex<f32>>
  return %r : tensor<3xcomplex<f32>>
}

// case minimum of complex numbers
// gives: c64[3] {(1, 2), (2, 5), (1, -1)}
func.func public @main() -> tensor<3xcomplex<f32>> {
  %x = stablehlo.constant dense<[(1.0, 2.0), (3.0, 1.0), (1.0, -1.0)]> : tensor<3xcomplex<f32>>
  %y = stablehlo.constant dense<[(1.0, 3.0), (2.0, 5.0), (2.0, -1.0)]> : tensor<3xcomplex<f32>>
  %r = stablehlo.minimum %x, %y : tensor<3xcomplex<f32>>
  return %r : tensor<3xcomplex<f32>>
}
