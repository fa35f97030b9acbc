#include "synthetic_data.h"

#include <algorithm>

#include "tril/base/counter_random.h"
#include "tril/bench/bench.h"

namespace tril {

void NoTextTokenizer::encode_to(std::string_view text, std::vector<int32_t>& /*out*/) const {
  if (!text.empty()) throw DataError("random ids stand for no text: nothing can be encoded");
}

TrainingData synthetic_data(const std::filesystem::path& path,
                            int64_t vocab_size,
                            int64_t context_length,
                            int64_t windows_per_step) {
  const auto tokenizer = std::make_shared<const NoTextTokenizer>(vocab_size);
  TokenFileWriter writer(path, vocab_size, tokenizer->fingerprint());
  // Some steps' worth: the same windows come again, which no figure here depends on.
  const int64_t count = std::clamp<int64_t>(
      8 * windows_per_step * (context_length + 1), context_length + 1, int64_t{1} << 22);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(scale_to_range(mix64(i), static_cast<uint64_t>(vocab_size)));
  }
  writer.append(ids);
  writer.finish();

  TrainingData data;
  data.tokenizer = tokenizer;
  data.train = TokenFile::open(path);
  data.train_fingerprint = "random ids";
  return data;
}

}  // namespace tril
