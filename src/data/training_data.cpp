#include "tril/data/training_data.h"

#include <fmt/format.h>

#include <array>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/fingerprint.h"
#include "tril/data/prepare.h"
#include "tril/data/tales.h"
#include "tril/data/text_cache.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// A split must hold one window: T inputs and the target of the last.
void require_window(const char* split, const TokenFile& tokens, int64_t context_length) {
  if (tokens.size() >= context_length + 1) return;
  throw DataError(fmt::format(
      "the {} split has {} tokens, needs {} (model.context_length {} + 1): use a longer text{} or "
      "a "
      "shorter context",
      split,
      tokens.size(),
      context_length + 1,
      context_length,
      std::string_view(split) == "validation" ? ", another data.validation_fraction (0: none)"
                                              : ""));
}

/// Identifies the tokens of a split without reading a large file whole: header, size, both ends.
std::string token_file_fingerprint(const TokenFile& tokens) {
  FingerprintStream stream;
  const TokenFileHeader& header = tokens.header();
  stream.update(header.tokenizer_fingerprint.data(), header.tokenizer_fingerprint.size());
  stream.update(&header.count, sizeof header.count);
  constexpr int64_t kProbes = 4096;
  std::array<int64_t, 64> ids{};
  const int64_t n = tokens.size();
  for (int64_t i = 0; i < kProbes; ++i) {
    const auto width = std::min<int64_t>(static_cast<int64_t>(ids.size()), n);
    const auto start = static_cast<int64_t>(static_cast<double>(n - width) *
                                            static_cast<double>(i) / (kProbes - 1));
    tokens.read(start, {ids.data(), static_cast<size_t>(width)});
    stream.update(ids.data(), static_cast<size_t>(width) * sizeof(int64_t));
  }
  return stream.hex();
}

bool is_token_file(const fs::path& path) {
  return path.extension() == ".tokens";
}

/// Training data from a text. `source` says what of it is for validation, unless the config names a
/// validation file: a text or a token file.
TrainingData open_text(TextSource source,
                       const DataConfig& config,
                       const std::shared_ptr<const Tokenizer>& tokenizer,
                       const TextHooks& hooks) {
  const bool tokens_for_validation = is_token_file(config.validation);
  if (!config.validation.empty() && !tokens_for_validation) {
    source.validation_text = config.validation;
  }
  TokenizedText text = tokenizer ? tokenize_cached(source, tokenizer, hooks)
                                 : tokenize_cached(source, config.tokenizer, hooks);
  TrainingData data;
  data.train = std::move(text.train);
  data.validation = std::move(text.validation);
  data.tokenizer = std::move(text.tokenizer);
  if (tokens_for_validation) {
    data.validation = open_token_file_checked(config.validation, *data.tokenizer);
  }
  return data;
}

TrainingData open_tales(const DataConfig& config,
                        const std::shared_ptr<const Tokenizer>& tokenizer,
                        const TextHooks& hooks) {
  const TalesFiles files = cached_tales(config.tales_bytes, config.tales_seed);
  const auto marks = read_tales_side_file(files.marks);
  TextSource source{.text = files.text};
  int64_t cut = 0;
  if (config.validation.empty() && config.validation_fraction > 0) {
    const auto wanted = validation_begin(marks.back().end_byte, config.validation_fraction);
    cut = fable_end_at_or_before(marks, wanted);
    // The split begins with the last byte of the fable before: an evaluation does not score a
    // split's first token, and so scores exactly whole fables.
    source.validation_begin = cut > 0 ? cut - 1 : 0;
    if (cut == 0) {
      throw DataError(
          fmt::format("data.tales_bytes {} holds too few fables for a training part and "
                      "a validation part of {}",
                      config.tales_bytes,
                      config.validation_fraction));
    }
  }
  TrainingData data = open_text(std::move(source), config, tokenizer, hooks);
  if (cut > 0) data.validation_floor_nats = floor_nats(marks, cut, marks.back().end_byte);
  return data;
}

/// Texts that shipped configs name and the project may not contain.
void require_fetched(const fs::path& path) {
  std::error_code ignored;
  if (path.filename() != "tinyshakespeare.txt" || fs::exists(path, ignored)) return;
  throw DataError(
      fmt::format("{} is not there: run scripts/fetch_tinyshakespeare.sh first", path.string()));
}

TrainingData open_files(const DataConfig& config,
                        const std::shared_ptr<const Tokenizer>& tokenizer,
                        const TextHooks& hooks) {
  require_fetched(config.train);
  TrainingData data;
  if (is_token_file(config.train)) {
    data.train = TokenFile::open(config.train);  // what is missing here is named first
    data.tokenizer = tokenizer;
    if (!data.tokenizer) {
      // `tril prepare` puts the tokenizer beside the tokens ("char" means that one); the config may
      // name another, which must then fit.
      data.tokenizer = config.tokenizer == "char"
                           ? load_tokenizer(fs::path(config.train).parent_path() / "tokenizer.json")
                           : make_tokenizer(config.tokenizer);
    }
    data.train = open_token_file_checked(config.train, *data.tokenizer);
    if (!config.validation.empty()) {
      if (is_token_file(config.validation)) {
        data.validation = open_token_file_checked(config.validation, *data.tokenizer);
      } else {
        data.validation = tokenize_cached({.text = config.validation}, data.tokenizer, hooks).train;
      }
    } else {
      const fs::path beside = fs::path(config.train).parent_path() / "validation.tokens";
      std::error_code ignored;
      if (config.validation_fraction > 0 && fs::exists(beside, ignored)) {
        data.validation = open_token_file_checked(beside, *data.tokenizer);
      }
    }
    return data;
  }
  TextSource source{.text = config.train};
  if (config.validation.empty()) source.validation_fraction = config.validation_fraction;
  return open_text(std::move(source), config, tokenizer, hooks);
}

}  // namespace

TalesFiles cached_tales(int64_t min_bytes, uint64_t seed) {
  const std::string key =
      fmt::format("tales-{}-{}-{}", tales_fingerprint().substr(0, 12), min_bytes, seed);
  const fs::path folder = cache_folder();
  const TalesFiles files{folder / (key + ".txt"), folder / (key + ".marks")};
  std::error_code ignored;
  const auto made = [&] {
    return fs::exists(files.text, ignored) && fs::exists(files.marks, ignored);
  };
  if (made()) return files;
  const FileLock lock = FileLock::acquire(folder / (key + ".lock"));
  if (made()) return files;
  const TalesText tales = make_tales(min_bytes, seed);
  write_tales_side_file(files.marks, tales.marks);
  write_file_atomically(files.text, tales.text);
  return files;
}

TrainingData open_training_data(const DataConfig& config,
                                int64_t context_length,
                                std::shared_ptr<const Tokenizer> tokenizer,
                                const TextHooks& hooks) {
  TrainingData data = config.train == kTales ? open_tales(config, tokenizer, hooks)
                                             : open_files(config, tokenizer, hooks);
  require_window("training", data.train, context_length);
  data.train_fingerprint = token_file_fingerprint(data.train);
  if (data.validation) {
    require_window("validation", *data.validation, context_length);
    data.validation_fingerprint = token_file_fingerprint(*data.validation);
  }
  return data;
}

}  // namespace tril
