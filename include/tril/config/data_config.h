#pragma once
// The `data` section: which text, which tokenizer, how windows are drawn.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

/// What kind of files `data.train` and `data.validation` are.
enum class DataFormat { kAuto, kText, kTril, kLlmc, kUint16, kHdf5 };

inline constexpr EnumName<DataFormat> kDataFormatNames[] = {
    {DataFormat::kAuto, "auto"},
    {DataFormat::kText, "text"},
    {DataFormat::kTril, "tril"},
    {DataFormat::kLlmc, "llmc"},
    {DataFormat::kUint16, "uint16"},
    {DataFormat::kHdf5, "hdf5"},
};
constexpr std::span<const EnumName<DataFormat>> enum_names(DataFormat) {
  return kDataFormatNames;
}

/// One entry of `data.train`: what a path names, and its share of the training windows.
struct WeightedFile {
  std::string file;
  double weight = 1;  ///< relative to the other entries'

  bool operator==(const WeightedFile&) const = default;
};

/// `data.train`: one path, or a list of them with weights. Never empty.
struct TrainFiles {
  std::vector<WeightedFile> files;
  bool is_list = false;  ///< written as a list (of one, perhaps)

  TrainFiles(std::string file) : files{{std::move(file), 1}} {}    // NOLINT: a path is one
  TrainFiles(const char* file) : TrainFiles(std::string(file)) {}  // NOLINT
  explicit TrainFiles(std::vector<WeightedFile> list) : files(std::move(list)), is_list(true) {}

  bool operator==(const TrainFiles&) const = default;
  /// Is it this one path?
  bool is(std::string_view file) const { return files.size() == 1 && files[0].file == file; }
};

/// `data.train` for the bundled corpus; a file of this name is written "./tales".
inline constexpr const char* kTales = "tales";

struct DataConfig {
  TrainFiles train = kTales;         ///< "tales" or absolute paths
  std::string validation;            ///< absolute path, or "": the end of `train`
  double validation_fraction = 0.1;  ///< share of `train`; 0: no validation
  std::string tokenizer = "char";    ///< "char", "bpe:N", "byte", "gpt2" or an absolute path
  Sampling sampling = Sampling::kShuffle;
  DataFormat format = DataFormat::kAuto;
  int64_t tales_bytes = 8'000'000;
  uint64_t tales_seed = 1;

  bool operator==(const DataConfig&) const = default;

  template <typename Self, typename Visitor>
  static void visit(Self& self, Visitor& v) {
    v.field("train",
            self.train,
            {.meaning = "the training text: `tales` (the bundled corpus, made on first use), a "
                        "text (also `.gz`, `.zst`), token files (one, a pattern such as "
                        "`data/train_*.tokens`, or a folder that `tril prepare` wrote), or a list "
                        "of `{\"file\": ..., \"weight\": ...}`: each window comes from one of "
                        "them, by weight",
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
            {.meaning = "`char` (one token per character of the whole text), `bpe:N` (N byte-pair "
                        "tokens learned from the whole text), `byte` (256 tokens), `gpt2` (50257 "
                        "tokens, after scripts/fetch_gpt2_vocab.sh), or the path of a "
                        "`tokenizer.json`. Prepared token files bring theirs along; "
                        "foreign ones (`format`) need it named",
             .keywords = "char|bpe:N|byte|gpt2",
             .path = PathBase::kConfigFile,
             .on_resume = OnResume::kMayChange});
    v.field("sampling",
            self.sampling,
            {.meaning = "how windows are drawn: `shuffle` visits each once per epoch, `random` "
                        "draws starts evenly, with replacement"});
    v.field("format",
            self.format,
            {.meaning = "what the files are: `auto` looks at their first bytes; `text`; `tril` "
                        "(`tril prepare`); `llmc` (shards of llm.c); `uint16` (nothing but 2-byte "
                        "ids, as nanoGPT writes them; never guessed); `hdf5` (a dataset `tokens`)",
             .on_resume = OnResume::kMayChange});
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
