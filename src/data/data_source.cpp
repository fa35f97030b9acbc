#include "data_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"
#include "tril/data/input_files.h"
#include "tril/data/prepare.h"
#include "tril/data/text_cache.h"

namespace tril {
namespace fs = std::filesystem;
namespace {

using Kind = DataSource::Kind;

Kind kind_of(const fs::path& path, DataFormat format) {
  switch (format) {
    case DataFormat::kText:
      return Kind::kText;
    case DataFormat::kTril:
      return Kind::kTril;
    case DataFormat::kLlmc:
      return Kind::kLlmc;
    case DataFormat::kUint16:
      return Kind::kUint16;
    case DataFormat::kHdf5:
      return Kind::kHdf5;
    case DataFormat::kAuto:
      break;
  }
  if (path.extension() == ".tokens") return Kind::kTril;  // or it is refused as one
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return Kind::kText;
  switch (sniff_token_format(path)) {
    case TokenFormat::kTril:
      return Kind::kTril;
    case TokenFormat::kLlmc:
      return Kind::kLlmc;
    case TokenFormat::kHdf5:
      return Kind::kHdf5;
    case TokenFormat::kUnknown:
      break;
  }
  return Kind::kText;
}

}  // namespace

std::vector<fs::path> prepared_files(const fs::path& folder, const std::string& part) {
  std::error_code ignored;
  const fs::path single = folder / (part + ".tokens");
  if (fs::exists(single, ignored)) return {single};
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(part + "_") && name.ends_with(".tokens")) shards.push_back(entry.path());
  }
  // Five digits, or more where there are more: by length first, then by name.
  std::sort(shards.begin(), shards.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.filename().string();
    const std::string y = b.filename().string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return shards;
}

DataSource find_data_source(const std::string& path, DataFormat format, const char* part) {
  DataSource source{.name = path};
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    source.kind = Kind::kTril;
    source.files = prepared_files(path, part);
    if (source.files.empty()) {
      throw DataError(fmt::format(
          "the folder '{}' holds no {}.tokens: expected one that `tril prepare INPUT... "
          "--out {}` wrote",
          shown(path),
          part,
          shown(path)));
    }
    return source;
  }
  if (!is_pattern(path) || fs::exists(path, ignored)) {
    source.kind = kind_of(path, format);
    source.files = {path};
    return source;
  }
  source.files = files_of_pattern(path);
  if (source.files.empty()) {
    throw DataError(fmt::format("no file matches the pattern '{}'", shown(path)));
  }
  source.kind = kind_of(source.files.front(), format);
  for (const fs::path& file : source.files) {
    const Kind kind = kind_of(file, format);
    if (kind == source.kind && kind != Kind::kText && kind != Kind::kHdf5) continue;
    throw DataError(
        fmt::format("the pattern '{}' should stand for token files of one kind, but matches '{}'{}",
                    shown(path),
                    shown(file),
                    kind == Kind::kText ? "; texts become token files by `tril prepare`" : ""));
  }
  return source;
}

TokenFile open_tokens(const DataSource& source,
                      const std::shared_ptr<const Tokenizer>& tokenizer,
                      const TextHooks& hooks) {
  std::vector<TokenFile> files;
  std::optional<TokenMeaning> meaning;
  if (source.is_foreign() && !tokenizer) {
    if (source.kind == Kind::kHdf5) {
      throw DataError(fmt::format("'{}' does not say what its ids mean: name its tokenizer",
                                  shown(source.files.front())));
    }
    meaning = {.vocab_size = int64_t{1} << 31, .tokenizer_fingerprint = std::string(32, '0')};
  } else if (source.is_foreign()) {
    meaning = {.vocab_size = tokenizer->vocab_size(),
               .tokenizer_fingerprint = tokenizer->fingerprint(),
               .end_of_text = tokenizer->end_of_text()};
  }
  for (const fs::path& path : source.files) {
    switch (source.kind) {
      case Kind::kTril:
        files.push_back(open_token_file_checked(path, *tokenizer));
        break;
      case Kind::kLlmc:
        files.push_back(TokenFile::open_llmc(path, *meaning));
        break;
      case Kind::kUint16:
        files.push_back(TokenFile::open_uint16(path, *meaning));
        break;
      case Kind::kHdf5:
        files.push_back(hdf5_cached(path, tokenizer, hooks));
        break;
      case Kind::kText:
        throw std::logic_error("a text is no token file");
    }
  }
  return TokenFile::join(files);
}

}  // namespace tril
