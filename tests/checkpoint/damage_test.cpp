// A thousand damaged checkpoint files inside one process: each is refused with an error of ours,
// or, where its manifest vouches for it, read as a sound file would be. Nothing crashes, and
// nothing of a refused file reaches the model.

#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "support/catch.h"
#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/checkpoint/checkpoint.h"
#include "tril/optim/adamw.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

int n_events(int short_form) {
  const char* chosen = std::getenv("TRIL_FAULTS_DAMAGE_IN_PROCESS");
  return chosen == nullptr ? short_form : std::atoi(chosen);
}

std::string flip_bit(std::string bytes, std::mt19937& random) {
  const size_t at = random() % bytes.size();
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
  return bytes;
}

/// Cut at every class of length, lengthened, flipped, filled, exchanged with another file.
std::string damaged(const std::string& good,
                    const std::string& other,
                    int kind,
                    std::mt19937& random) {
  switch (kind % 10) {
    case 0:
      return good.substr(0, random() % 10);
    case 1:
      return good.substr(0, random() % good.size());
    case 2:
      return good.substr(0, good.size() - 1 - random() % std::min<size_t>(8, good.size() - 1));
    case 3:
      return good + std::string(1 + random() % 100, static_cast<char>(random()));
    case 4:
      return std::string(good.size(), static_cast<char>(random()));
    case 5:
      return other;
    case 6: {
      std::string bytes = good;
      const size_t at = random() % bytes.size();
      const size_t n = std::min<size_t>(bytes.size() - at, 1 + random() % 512);
      for (size_t i = 0; i < n; ++i) bytes[at + i] = static_cast<char>(random());
      return bytes;
    }
    default:
      return flip_bit(good, random);
  }
}

}  // namespace

TEST_CASE("a thousand damaged checkpoint files are refused, and none reaches the model",
          "[checkpoint][faults][slow]") {
  const TempDir dir;
  GPT model = tiny_model(tiny_config());
  AdamW optimizer(unique_parameters(*model), {});
  const fs::path folder = dir / "c";
  const auto parameters = unique_parameters(*model);
  save_checkpoint(folder,
                  {.parameters = parameters,
                   .optimizer = optimizer.state(),
                   .state = {.step = 10, .validation_loss = 1.5, .precision = "fp32"},
                   .config = OrderedJson{{"seed", 1}},
                   .tokenizer = OrderedJson{{"type", "byte"}, {"version", 1}}});
  std::map<std::string, std::string> good;
  for (const char* name : kCheckpointFiles) good[name] = read_text(folder / name);
  good[kManifestName] = read_text(folder / kManifestName);

  // Everything a checkpoint is used for. True when all of it was accepted.
  const auto use = [&] {
    try {
      const Checkpoint checkpoint = Checkpoint::open(folder);
      checkpoint.state();
      checkpoint.config();
      checkpoint.tokenizer();
      checkpoint.load_optimizer(optimizer.state());
      checkpoint.load_parameters(parameters);
      return true;
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK(message.find(folder.string()) != std::string::npos);
      return false;
    }
  };
  REQUIRE(use());
  const torch::Tensor before = model->token_embedding->weight.detach().clone();

  std::mt19937 random(std::random_device{}());
  int n_refused = 0;
  int n_harmless = 0;
  const int n = n_events(1000);
  auto victim = good.begin();
  for (int i = 0; i < n; ++i) {
    if (++victim == good.end()) victim = good.begin();
    const auto& [name, bytes] = *victim;
    auto other = std::next(victim) == good.end() ? good.begin() : std::next(victim);
    const std::string bad = damaged(bytes, other->second, i, random);
    if (bad == bytes) continue;
    CAPTURE(name, i, bad.size());
    write_text(folder / name, bad);
    // A forger makes the manifest agree; then the formats themselves must hold.
    const bool forged = i % 2 == 1 && name != kManifestName;
    if (forged) {
      Json manifest = Json::parse(good.at(kManifestName));
      manifest["files"][name] = {{"bytes", bad.size()}, {"xxh3", fingerprint(bad)}};
      write_text(folder / kManifestName, manifest.dump());
    }
    const bool accepted = use();
    // Other digits or names in a forged file, or a manifest that differs where nothing is said
    // (white space, the step), are still sound files.
    if (!forged && name != kManifestName) CHECK_FALSE(accepted);
    accepted ? ++n_harmless : ++n_refused;
    if (!accepted && !forged) {
      CHECK(torch::equal(model->token_embedding->weight, before));
    }
    write_text(folder / name, bytes);
    write_text(folder / kManifestName, good.at(kManifestName));
    if (accepted) REQUIRE(use());
  }
  CHECK(n_refused > n_harmless);
  if (const char* report = std::getenv("TRIL_FAULTS_REPORT")) {
    const Json line = {{"kind", "damaged file"},
                       {"where", "inside one process, half with a forged manifest"},
                       {"outcomes", {{"refused by name", n_refused}, {"harmless", n_harmless}}}};
    std::ofstream(report, std::ios::app) << line.dump() << "\n";
  }
}
