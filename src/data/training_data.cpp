#include "tril/data/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "data_source.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/fingerprint.h"
#include "tril/data/byte_source.h"
#include "tril/data/nanogpt_meta.h"
#include "tril/data/prepare.h"
#include "tril/data/tales.h"
#include "tril/data/text_cache.h"
#include "tril/tokenizer/learned_tokenizer.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

/// A split must hold one window: T inputs and the target of the last.
void require_window(const char* split,
                    const TokenFile& tokens,
                    int64_t context_length,
                    const std::string& entry = "") {
  if (tokens.size() >= context_length + 1) return;
  throw DataError(fmt::format(
      "the {} split has {} tokens, needs {} (model.context_length {} + 1){}: use a longer text{} "
      "or "
      "a shorter context",
      split,
      tokens.size(),
      context_length + 1,
      context_length,
      entry.empty() ? "" : fmt::format(" in the entry '{}' of data.train", entry),
      std::string_view(split) == "validation" ? ", another data.validation_fraction (0: none)"
                                              : ""));
}

/// Identifies the tokens of a split without reading a large file whole: header, size, both ends,
/// and places in between. An id outside the vocabulary that is met on the way is a DataError.
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
    for (int64_t j = 0; j < width; ++j) {
      const int64_t id = ids[static_cast<size_t>(j)];
      if (id < header.vocab_size) continue;
      throw DataError(
          fmt::format("{} is {}, its tokenizer has {} ids: the file is of another tokenizer, or "
                      "of another kind (data.format), or damaged",
                      tokens.describe_place(start + j),
                      id,
                      header.vocab_size));
    }
    stream.update(ids.data(), static_cast<size_t>(width) * sizeof(int64_t));
  }
  return stream.hex();
}

/// One entry of data.train, opened.
struct OpenedSource {
  TokenFile train;
  std::optional<TokenFile> validation = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};
  std::optional<double> validation_floor_nats = {};
};

using TokenizerPtr = std::shared_ptr<const Tokenizer>;

/// A text: its end is for validation, unless data.validation names one of its own. A null tokenizer
/// stands for the one that is learned from the text (and from the validation text).
OpenedSource open_text(TextSource source,
                       const DataConfig& config,
                       const TokenizerPtr& tokenizer,
                       const TextHooks& hooks) {
  const std::string learned = is_learned(config.tokenizer) ? config.tokenizer : "char";
  TokenizedText text = tokenizer ? tokenize_cached(source, tokenizer, hooks, learned)
                                 : tokenize_cached(source, config.tokenizer, hooks);
  return {.train = std::move(text.train),
          .validation = std::move(text.validation),
          .tokenizer = std::move(text.tokenizer)};
}

OpenedSource open_tales(const DataConfig& config,
                        TextSource source,
                        const TokenizerPtr& tokenizer,
                        const TextHooks& hooks) {
  const TalesFiles files = cached_tales(config.tales_bytes, config.tales_seed);
  const auto marks = read_tales_side_file(files.marks);
  source.text = files.text;
  int64_t cut = 0;
  if (source.validation_fraction > 0) {
    const auto wanted = validation_begin(marks.back().end_byte, source.validation_fraction);
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
  OpenedSource opened = open_text(std::move(source), config, tokenizer, hooks);
  if (cut > 0) opened.validation_floor_nats = floor_nats(marks, cut, marks.back().end_byte);
  return opened;
}

/// Texts that shipped configs name and the project may not contain.
void require_fetched(const fs::path& path) {
  std::error_code ignored;
  if (path.filename() != "tinyshakespeare.txt" || fs::exists(path, ignored)) return;
  throw DataError(
      fmt::format("{} is not there: run scripts/fetch_tinyshakespeare.sh first", path.string()));
}

/// Token files: the validation part stands beside those of `tril prepare`; of foreign ones, it is
/// their end.
OpenedSource open_token_source(const DataSource& source,
                               double validation_fraction,
                               const TokenizerPtr& tokenizer,
                               const TextHooks& hooks) {
  OpenedSource opened{.train = open_tokens(source, tokenizer, hooks), .tokenizer = tokenizer};
  if (!(validation_fraction > 0)) return opened;
  if (source.is_foreign()) {
    const int64_t begin = validation_begin(opened.train.size(), validation_fraction);
    opened.validation = opened.train.slice(begin, opened.train.size() - begin);
    opened.train = opened.train.slice(0, begin);
    return opened;
  }
  const bool is_validation_part =
      source.files.front().filename().string().starts_with("validation");
  DataSource beside{.kind = DataSource::Kind::kTril,
                    .name = source.name,
                    .files = prepared_files(source.folder(), "validation")};
  if (!is_validation_part && !beside.files.empty()) {
    opened.validation = open_tokens(beside, tokenizer, hooks);
  }
  return opened;
}

/// A text that may not be meant as one.
void notice_odd_text(const DataSource& source, const DataConfig& config, const TextHooks& hooks) {
  if (source.kind != DataSource::Kind::kText || config.format == DataFormat::kText) return;
  if (!hooks.notice) return;
  const fs::path& file = source.files.front();
  if (file.extension() == ".bin") {
    hooks.notice(
        fmt::format("{} has no header that says what it is, and is read as text; ids "
                    "without a header are data.format=uint16",
                    file.string()));
  }
  const std::string inside = extension_inside(file);
  if (inside == ".jsonl" || inside == ".ndjson") {
    hooks.notice(
        fmt::format("{} is read as running text; its documents are found by `tril "
                    "prepare {} --out DIR`",
                    file.string(),
                    file.string()));
  }
}

/// What data.train names, in its order; "tales" has no files.
std::vector<DataSource> find_sources(const DataConfig& config, const TextHooks& hooks) {
  std::vector<DataSource> sources;
  for (const WeightedFile& entry : config.train.files) {
    if (entry.file == kTales) {
      sources.push_back({.kind = DataSource::Kind::kText, .name = kTales});
      continue;
    }
    require_fetched(entry.file);
    sources.push_back(find_data_source(entry.file, config.format, "train"));
    notice_odd_text(sources.back(), config, hooks);
  }
  return sources;
}

/// data.validation is found out about by its first bytes, whatever data.train is; where those say
/// nothing, it is of the same kind.
std::optional<DataSource> find_validation(const DataConfig& config) {
  if (config.validation.empty()) return std::nullopt;
  DataSource source = find_data_source(config.validation, DataFormat::kAuto, "validation");
  const bool told = source.kind != DataSource::Kind::kText || config.format == DataFormat::kAuto ||
                    config.format == DataFormat::kTril || config.format == DataFormat::kLlmc ||
                    config.format == DataFormat::kHdf5;
  if (told) return source;
  return find_data_source(config.validation, config.format, "validation");
}

/// The tokenizer that all files share. `tril prepare` puts it beside the tokens, and a learned one
/// ("char", "bpe:N") is that one; the config may name another, which must then fit. Null: it is to
/// be learned from the texts.
TokenizerPtr choose_tokenizer(const DataConfig& config, const std::vector<DataSource>& sources) {
  const auto first = std::find_if(sources.begin(), sources.end(), [](const DataSource& source) {
    return source.kind != DataSource::Kind::kText;
  });
  if (first == sources.end()) {
    return is_learned(config.tokenizer) ? nullptr : make_data_tokenizer(config.tokenizer);
  }
  const auto prepared = std::find_if(sources.begin(), sources.end(), [](const DataSource& source) {
    return source.kind == DataSource::Kind::kTril;
  });
  const DataSource& decides = prepared != sources.end() ? *prepared : *first;
  if (prepared != sources.end()) TokenFile::open(decides.files.front());  // missing: named first
  if (!is_learned(config.tokenizer)) return make_data_tokenizer(config.tokenizer);
  const fs::path beside = decides.folder() / "tokenizer.json";
  std::error_code ignored;
  if (decides.is_foreign() && !fs::exists(beside, ignored)) {
    throw DataError(
        fmt::format("'{}' does not say what its ids mean, and no tokenizer.json stands beside it: "
                    "name the tokenizer it was made with, for example --set data.tokenizer=gpt2",
                    decides.files.front().string()));
  }
  return load_tokenizer(beside);
}

/// From several texts: it is that of all of them.
TokenizerPtr learn_from(const std::vector<DataSource>& sources,
                        const std::optional<DataSource>& validation,
                        const DataConfig& config,
                        const TextHooks& hooks) {
  std::vector<fs::path> texts;
  for (const DataSource& source : sources) {
    texts.push_back(source.name == kTales ? cached_tales(config.tales_bytes, config.tales_seed).text
                                          : source.files.front());
  }
  if (validation && validation->kind == DataSource::Kind::kText) {
    texts.push_back(validation->files.front());
  }
  return learn_tokenizer(config.tokenizer, texts, hooks);
}

/// Puts the entries of data.train together, in their order.
TrainingData join_sources(std::vector<OpenedSource> opened,
                          const TrainFiles& train,
                          int64_t context_length) {
  TrainingData data;
  data.tokenizer = opened.front().tokenizer;
  std::vector<TokenFile> trains;
  std::vector<TokenFile> validations;
  int64_t begin = 0;
  for (size_t i = 0; i < opened.size(); ++i) {
    require_window(
        "training", opened[i].train, context_length, train.is_list ? train.files[i].file : "");
    data.train_parts.push_back(
        {.begin = begin, .count = opened[i].train.size(), .weight = train.files[i].weight});
    begin += opened[i].train.size();
    trains.push_back(std::move(opened[i].train));
    if (opened[i].validation) validations.push_back(std::move(*opened[i].validation));
  }
  data.train = TokenFile::join(trains);
  if (!validations.empty()) data.validation = TokenFile::join(validations);
  if (opened.size() == 1) {
    data.train_parts.clear();
    data.validation_floor_nats = opened.front().validation_floor_nats;
  }
  return data;
}

/// Which tokens training sees, and how often: the weights too, where they matter.
std::string train_fingerprint_of(const TrainingData& data) {
  const std::string tokens = token_file_fingerprint(data.train);
  if (data.train_parts.empty()) return tokens;
  FingerprintStream stream;
  stream.update(tokens.data(), tokens.size());
  for (const SamplerPart& part : data.train_parts) {
    stream.update(&part.count, sizeof part.count);
    stream.update(&part.weight, sizeof part.weight);
  }
  return stream.hex();
}

}  // namespace

WindowSampler TrainingData::windows(Sampling sampling,
                                    int64_t context_length,
                                    uint64_t seed) const {
  if (train_parts.empty()) return {sampling, train.size(), context_length, seed};
  return {sampling, train_parts, context_length, seed};
}

TokenFile open_text_or_tokens(const fs::path& path,
                              const TokenizerPtr& tokenizer,
                              DataFormat format,
                              const TextHooks& hooks) {
  const DataSource source = find_data_source(path.string(), format, "validation");
  if (source.kind != DataSource::Kind::kText) return open_tokens(source, tokenizer, hooks);
  return tokenize_cached({.text = source.files.front()}, tokenizer, hooks).train;
}

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

TokenFile open_tokens_to_describe(const std::string& path,
                                  DataFormat format,
                                  const std::string& tokenizer) {
  const DataSource source = find_data_source(path, format, "train");
  if (source.kind == DataSource::Kind::kText) {
    throw DataError(
        fmt::format("'{}' is no token file of a known kind; ids without a header are "
                    "--format uint16",
                    path));
  }
  if (source.kind == DataSource::Kind::kTril) {
    std::vector<TokenFile> files;
    for (const fs::path& file : source.files) files.push_back(TokenFile::open(file));
    return TokenFile::join(files);
  }
  return open_tokens(source, is_learned(tokenizer) ? nullptr : make_data_tokenizer(tokenizer), {});
}

TrainingData open_training_data(const DataConfig& config,
                                int64_t context_length,
                                std::shared_ptr<const Tokenizer> tokenizer,
                                const TextHooks& hooks) {
  if (is_learned(config.tokenizer)) make_learner(config.tokenizer, {});  // may refuse it
  const std::vector<DataSource> sources = find_sources(config, hooks);
  const std::optional<DataSource> validation = find_validation(config);
  const bool validation_is_text = validation && validation->kind == DataSource::Kind::kText;
  if (!tokenizer) tokenizer = choose_tokenizer(config, sources);
  // Of one text, the cache makes the vocabulary and the ids together.
  if (!tokenizer && sources.size() > 1) {
    tokenizer = learn_from(sources, validation, config, hooks);
  }
  const double fraction = validation ? 0 : config.validation_fraction;
  std::vector<OpenedSource> opened;
  for (const DataSource& source : sources) {
    if (source.kind != DataSource::Kind::kText) {
      opened.push_back(open_token_source(source, fraction, tokenizer, hooks));
      continue;
    }
    TextSource text{.validation_fraction = fraction};
    if (validation_is_text && sources.size() == 1) text.validation_text = validation->files.front();
    if (source.name == kTales) {
      opened.push_back(open_tales(config, std::move(text), tokenizer, hooks));
    } else {
      text.text = source.files.front();
      opened.push_back(open_text(std::move(text), config, tokenizer, hooks));
    }
  }
  TrainingData data = join_sources(std::move(opened), config.train, context_length);
  if (validation && !data.validation) {
    data.validation =
        validation_is_text
            ? tokenize_cached({.text = validation->files.front()}, data.tokenizer, hooks).train
            : open_tokens(*validation, data.tokenizer, hooks);
  }
  data.train_fingerprint = train_fingerprint_of(data);
  if (data.validation) {
    require_window("validation", *data.validation, context_length);
    data.validation_fingerprint = token_file_fingerprint(*data.validation);
  }
  return data;
}

}  // namespace tril
