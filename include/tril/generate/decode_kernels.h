#pragma once
// Loops over plain memory for one-token steps, chosen for the processor at run time. No Torch here.
// A step reads every weight once, so its time is the time of reading them: the loops keep up with
// the memory in each of the three formats.

#include <cstdint>

#include "tril/config/model_config.h"

namespace tril {

/// Products of a (rows, columns) matrix with n vectors:
///   out[m * out_stride + r - begin] = sum over c of weight[r * columns + c] * x[m * columns + c]
/// for r in [begin, end). Sums are formed in fp32; those of bytes and 16-bit numbers are exact over
/// 512 columns at a time. The result of a row does not depend on the other
/// rows and vectors of the call.
template <typename Weight, typename X = float>
using MatrixKernel = void (*)(const Weight* weight,
                              int64_t columns,
                              int64_t begin,
                              int64_t end,
                              const X* x,
                              int64_t n,
                              float* out,
                              int64_t out_stride);

/// Attention of one query over the positions of one head:
///   out = softmax(query keys^T * scale) values
///   query, out (head_size); keys, values (positions, head_size); scores: room for `positions`
template <typename Value>
using AttentionKernel = void (*)(const float* query,
                                 const Value* keys,
                                 const Value* values,
                                 int64_t positions,
                                 int64_t head_size,
                                 float scale,
                                 float* scores,
                                 float* out);

/// x[i] = activation(x[i]), or for swiglu silu(gate[i]) * x[i]; `gate` is read by swiglu only.
using InPlaceActivation = void (*)(float* x, const float* gate, int64_t n);

/// bf16 is the upper half of an fp32 number, as a uint16_t.
struct DecodeKernels {
  MatrixKernel<float> fp32;
  MatrixKernel<uint16_t> bf16;
  MatrixKernel<int8_t, int16_t> int8;
  AttentionKernel<float> attention_fp32;
  AttentionKernel<uint16_t> attention_bf16;
  InPlaceActivation activation;
};

/// The widest version that this processor runs, for an activation.
DecodeKernels decode_kernels(Activation activation);

/// The same code compiled for any x86-64: the twin in tests.
DecodeKernels decode_kernels_portable(Activation activation);

/// Numbers as 16-bit whole numbers of at most 16383 times the scale that is returned: 14 bits,
/// where bytes multiply. A number that is not finite makes the scale not a number.
float to_shorts(const float* x, int64_t n, int16_t* out);

/// The nearest bf16 number (ties to even).
uint16_t to_bf16(float value);

}  // namespace tril
