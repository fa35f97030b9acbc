#pragma once
// The `data` section: which text, which tokenizer, how windows are drawn.

#include <cstdint>
#include <string>

#include "tril/config/field.h"

namespace tril {

/// How training windows are drawn (DESIGN: data.sampling).
enum class Sampling { kShuffle, kRandom };

inline constexpr EnumName<Sampling> kSamplingNames[] = {
    {Sampling::kShuffle, "shuffle"},
    {Sampling::kRandom, "random"},
};
constexpr std::span<const EnumName<Sampling>> enum_names(Sampling) {
  return kSamplingNames;
}

/// `data.train` for the bundled corpus; a file of this name is written "./tales".
inline constexpr const char* kTales = "tales";

struct DataConfig {
  std::string train = kTales;        ///< "tales" or an absolute path
  std::string validation;            ///< absolute path, or "": the end of `train`
  double validation_fraction = 0.1;  ///< share of `train`; 0: no validation
  std::string tokenizer = "char";    ///< "char", "byte", "gpt2" or an absolute path
  Sampling sampling = Sampling::kShuffle;
  int64_t tales_bytes = 8'000'000;
  uint64_t tales_seed = 1;

  bool operator==(const DataConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("train",
            self.train,
            {.meaning = "the training text: `tales` (the bundled corpus, made on first use), a "
                        "`.txt` file, or a `.tokens` file",
             .keywords = kTales,
             .path = PathBase::kConfigFile,
             .on_resume = OnResume::kMayChange});
    v.field("validation",
            self.validation,
            {.meaning = "a validation text of its own, of the same kinds; empty: the end of "
                        "`train`",
             .keywords = "|",
             .path = PathBase::kConfigFile,
             .on_resume = OnResume::kMayChange});
    v.field("validation_fraction",
            self.validation_fraction,
            {.meaning = "share of the training text, at its end, kept for validation; 0: no "
                        "validation. Not used when `validation` is given",
             .min = 0,
             .max = 1,
             .max_itself = false});
    v.field("tokenizer",
            self.tokenizer,
            {.meaning = "`char` (one token per character of the whole text), `byte` (256 "
                        "tokens), `gpt2` (50257 tokens, after scripts/fetch_gpt2_vocab.sh), or "
                        "the path of a `tokenizer.json`",
             .keywords = "char|byte|gpt2",
             .path = PathBase::kConfigFile,
             .on_resume = OnResume::kMayChange});
    v.field("sampling",
            self.sampling,
            {.meaning = "how windows are drawn: `shuffle` visits each once per epoch, `random` "
                        "draws starts evenly, with replacement"});
    v.field("tales_bytes",
            self.tales_bytes,
            {.meaning = "size of the bundled corpus; used with `train` = `tales` only",
             .unit = "bytes",
             .min = 1000,
             .max = 1e12});
    v.field("tales_seed",
            self.tales_seed,
            {.meaning = "which bundled corpus: another seed tells other tales; used with "
                        "`train` = `tales` only",
             .min = 0,
             .max = kMaxExactInteger});
  }
};

}  // namespace tril
