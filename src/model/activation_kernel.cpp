#include "activation_kernel.h"

#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "bf16_rounding.h"
#include "dispatch.h"
#include "tril/base/vector_math.h"

namespace tril {
namespace {

TRIL_INLINE void relu(float x, float& y, float& dy) {
  y = x > 0.0F ? x : 0.0F;
  dy = x > 0.0F ? 1.0F : 0.0F;
}

TRIL_INLINE void relu_squared(float x, float& y, float& dy) {
  const float r = x > 0.0F ? x : 0.0F;
  y = r * r;
  dy = 2.0F * r;
}

/// x Phi(x), Phi by the error function of Abramowitz and Stegun 7.1.26 (absolute error 1.5e-7).
TRIL_INLINE void gelu(float x, float& y, float& dy) {
  const float z = std::fabs(x) * 0.70710678F;
  const float t = 1.0F / (1.0F + 0.3275911F * z);
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float e = exp_not_positive(-z * z);  // exp(-x^2 / 2)
  const float tail = 0.5F * p * t * e;       // 1 - Phi(|x|)
  const float phi = x > 0.0F ? 1.0F - tail : tail;
  y = x * phi;
  dy = phi + x * 0.39894228F * e;
}

/// x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3): the same as 0.5 x (1 + tanh(u)).
TRIL_INLINE void gelu_tanh(float x, float& y, float& dy) {
  constexpr float kScale = 1.59576912F;  // 2 sqrt(2/pi)
  const float x2 = x * x;
  const float u2 = kScale * x * (1.0F + 0.044715F * x2);  // 2u
  const float e = exp_not_positive(-std::fabs(u2));
  const float small = e / (1.0F + e);
  const float s = u2 > 0.0F ? 1.0F - small : small;  // 1 / (1 + exp(-2u))
  y = x * s;
  dy = s + x * s * (1.0F - s) * kScale * (1.0F + 0.134145F * x2);
}

using Function = void (*)(float, float&, float&);

template <Function F>
TRIL_INLINE void apply(const float* __restrict x,
                       float* __restrict y,
                       float* __restrict dy,
                       int64_t n) {
  for (int64_t i = 0; i < n; ++i) F(x[i], y[i], dy[i]);
}

template <typename T, Function F>
TRIL_INLINE void loop(const T* __restrict x, T* __restrict y, T* __restrict dy, int64_t n) {
  // In pieces: converting and computing in one loop takes half as long again.
  constexpr int64_t kPiece = 256;
  float wide_x[kPiece], wide_y[kPiece], wide_dy[kPiece];
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t m = n - at < kPiece ? n - at : kPiece;
    to_floats(x + at, wide_x, m);
    apply<F>(wide_x, wide_y, wide_dy, m);
    store_all(wide_y, y + at, m);
    if (dy != nullptr) store_all(wide_dy, dy + at, m);
  }
}

}  // namespace

template <typename T>
ActivationKernel<T> activation_kernel(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return Versions<loop<T, relu>>::best();
    case Activation::kGelu:
      return Versions<loop<T, gelu>>::best();
    case Activation::kGeluTanh:
      return Versions<loop<T, gelu_tanh>>::best();
    case Activation::kReluSquared:
      return Versions<loop<T, relu_squared>>::best();
    case Activation::kSwiglu:
      break;  // two inputs: not a function of one value
  }
  std::abort();
}

template <typename T>
ActivationKernel<T> activation_kernel_portable(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return Versions<loop<T, relu>>::portable;
    case Activation::kGelu:
      return Versions<loop<T, gelu>>::portable;
    case Activation::kGeluTanh:
      return Versions<loop<T, gelu_tanh>>::portable;
    case Activation::kReluSquared:
      return Versions<loop<T, relu_squared>>::portable;
    case Activation::kSwiglu:
      break;
  }
  std::abort();
}

template ActivationKernel<float> activation_kernel(Activation activation);
template ActivationKernel<Bf16> activation_kernel(Activation activation);
template ActivationKernel<float> activation_kernel_portable(Activation activation);
template ActivationKernel<Bf16> activation_kernel_portable(Activation activation);

}  // namespace tril
