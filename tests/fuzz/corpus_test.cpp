// The fuzz targets without a fuzzer: every file of the corpus, then simple mutations of it. What a
// fuzzer once found is a file of the corpus from then on.

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "fuzz/targets.h"
#include "support/catch.h"
#include "support/text_files.h"

using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> corpus_of(const std::string& target) {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(TRIL_SOURCE_DIR) / "tests/fuzz/corpus" / target)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) inputs.push_back(read_text(path));
  return inputs;
}

void run(tril::fuzz::Target target, const std::string& input) {
  // A copy of exactly its size: a read beyond the end is one for the address sanitizer.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  target(bytes.data(), bytes.size());
}

/// One to four random changes: a bit, a byte, a piece cut, doubled, or taken from another input.
std::string mutated(std::string input,
                    const std::vector<std::string>& corpus,
                    std::mt19937& random) {
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  for (size_t n_changes = 1 + below(4); n_changes > 0; --n_changes) {
    const size_t at = below(input.size() + 1);
    const size_t length = std::min(below(16), input.size() - at);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        input.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(at, input.substr(at, length));
        break;
      case 4:
        input.resize(at);
        break;
      default: {
        const std::string& other = corpus[below(corpus.size())];
        input.insert(at, other.substr(below(other.size()), below(64)));
      }
    }
  }
  return input;
}

}  // namespace

TEST_CASE("no bytes of the fuzz corpus, and no simple change of them, break a parser", "[fuzz]") {
  for (const auto& [name, target] : tril::fuzz::kTargets) {
    INFO("target " << name);
    const auto corpus = corpus_of(name);
    REQUIRE(corpus.size() >= 3);
    for (const auto& input : corpus) run(target, input);
    run(target, "");
    std::mt19937 random(1);
    for (int i = 0; i < 1000; ++i) {
      run(target, mutated(corpus[static_cast<size_t>(i) % corpus.size()], corpus, random));
    }
  }
}
