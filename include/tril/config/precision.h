#pragma once
// What matrix products compute in.

#include "tril/config/field.h"

namespace tril {

enum class Precision { kAuto, kFp32, kBf16, kFp16 };

inline constexpr EnumName<Precision> kPrecisionNames[] = {
    {Precision::kAuto, "auto"},
    {Precision::kFp32, "fp32"},
    {Precision::kBf16, "bf16"},
    {Precision::kFp16, "fp16"},
};
constexpr std::span<const EnumName<Precision>> enum_names(Precision) {
  return kPrecisionNames;
}

}  // namespace tril
