#include "tril/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "support/catch.h"
#include "support/errors.h"
#include "support/one_thread.h"
#include "support/temp_dir.h"
#include "support/tensor_matchers.h"
#include "support/text_files.h"
#include "support/tiny.h"
#include "tril/base/error.h"
#include "tril/base/fingerprint.h"
#include "tril/base/safetensors.h"
#include "tril/checkpoint/tensor_io.h"
#include "tril/optim/adamw.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

CheckpointState full_state() {
  return {.step = 120,
          .windows_seen = 960,
          .tokens_seen = (int64_t{1} << 53) + 1,  // beyond what a double holds
          .evaluated_step = 100,
          .validation_loss = 1.0 / 3,
          .best_validation_loss = 0.1 + 0.2,
          .best_step = 80,
          .precision = "bf16",
          .attention = "reference",
          .threads = 7,
          .train_fingerprint = "0123456789abcdef0123456789abcdef",
          .validation_fingerprint = "fedcba9876543210fedcba9876543210"};
}

/// A tiny model with its optimizer after one step, and a place to save them.
class SaveTest {
 public:
  explicit SaveTest(const ModelConfig& config = tiny_config(), uint64_t seed = 1)
      : model(tiny_model(config, seed)), optimizer(unique_parameters(*model), {}) {
    model->forward(tiny_ids(1, 8)).mean().backward();
    optimizer.step(0.01, gradient_norm(optimizer.gradients(), 1.0));
  }

  void save(const fs::path& folder, const CheckpointState& state = full_state()) const {
    save_checkpoint(folder,
                    {.parameters = unique_parameters(*model),
                     .optimizer = optimizer.state(),
                     .state = state,
                     .config = OrderedJson{{"seed", 1}},
                     .tokenizer = OrderedJson{{"type", "byte"}, {"version", 1}}});
  }

  TempDir dir;
  GPT model;
  AdamW optimizer;
};

std::string open_message(const fs::path& folder) {
  return message_of<CheckpointError>([&] { Checkpoint::open(folder); });
}

Json manifest_of(const fs::path& folder) {
  return Json::parse(read_text(folder / "manifest.json"));
}

/// Replaces one file and makes the manifest agree: what a faithful copy of a bad file looks like.
void replace_listed(const fs::path& folder, const std::string& name, const std::string& content) {
  write_text(folder / name, content);
  Json manifest = manifest_of(folder);
  manifest["files"][name] = {{"bytes", content.size()}, {"xxh3", fingerprint(content)}};
  write_text(folder / "manifest.json", manifest.dump());
}

const char* const kFiles[] = {
    "model.safetensors", "optimizer.safetensors", "state.json", "config.json", "tokenizer.json"};

}  // namespace

TEST_CASE("every part of a checkpoint comes back as it was saved", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "step_00000120";
  saved.save(folder);

  const Checkpoint checkpoint = Checkpoint::open(folder);
  CHECK(checkpoint.folder() == folder);
  CHECK(checkpoint.verify().empty());
  CHECK(checkpoint.has_optimizer());
  CHECK(checkpoint.config() == Json{{"seed", 1}});
  CHECK(checkpoint.tokenizer() == Json{{"type", "byte"}, {"version", 1}});
  CHECK(checkpoint.files().size() == 5);

  const CheckpointState state = checkpoint.state();
  const CheckpointState expected = full_state();
  CHECK(state.step == expected.step);
  CHECK(state.windows_seen == expected.windows_seen);
  CHECK(state.tokens_seen == expected.tokens_seen);
  CHECK(state.evaluated_step == expected.evaluated_step);
  CHECK(state.validation_loss == expected.validation_loss);  // every bit of the double
  CHECK(state.best_validation_loss == expected.best_validation_loss);
  CHECK(state.best_step == expected.best_step);
  CHECK(state.precision == expected.precision);
  CHECK(state.attention == expected.attention);
  CHECK(state.threads == expected.threads);
  CHECK(state.train_fingerprint == expected.train_fingerprint);
  CHECK(state.validation_fingerprint == expected.validation_fingerprint);

  const SaveTest other(tiny_config(), /*seed=*/2);
  checkpoint.load_parameters(unique_parameters(*other.model));
  checkpoint.load_optimizer(other.optimizer.state());
  const auto compare = [](const auto& loaded, const auto& original) {
    REQUIRE(loaded.size() == original.size());
    for (size_t i = 0; i < loaded.size(); ++i) {
      CAPTURE(loaded[i].name);
      CHECK(loaded[i].name == original[i].name);
      CHECK_CLOSE(loaded[i].tensor, original[i].tensor, 0);
    }
  };
  compare(unique_parameters(*other.model), unique_parameters(*saved.model));
  compare(other.optimizer.state(), saved.optimizer.state());
}

TEST_CASE("a run that was never evaluated has no validation loss in its state", "[checkpoint]") {
  const SaveTest saved;
  saved.save(saved.dir / "c", {.step = 1});
  const CheckpointState state = Checkpoint::open(saved.dir / "c").state();
  CHECK_FALSE(state.validation_loss);
  CHECK_FALSE(state.best_validation_loss);
  CHECK(state.best_step == 0);
}

TEST_CASE("equal state gives equal files, wherever and whenever it is saved", "[checkpoint]") {
  const SaveTest first, second;
  first.save(first.dir / "a");
  second.save(second.dir / "another/place");
  for (const char* name : kFiles) {
    CAPTURE(name);
    CHECK(first_difference(read_text(first.dir / "a" / name),
                           read_text(second.dir / "another/place" / name)) == -1);
  }
  CHECK(read_text(first.dir / "a/manifest.json") ==
        read_text(second.dir / "another/place/manifest.json"));
}

TEST_CASE("the names in a checkpoint are fixed for every preset", "[checkpoint]") {
  // A public interface: another name makes every checkpoint and every export unreadable.
  const std::vector<std::string> heads = {"attn.heads.0.query.weight",
                                          "attn.heads.0.key.weight",
                                          "attn.heads.0.value.weight",
                                          "attn.heads.1.query.weight",
                                          "attn.heads.1.key.weight",
                                          "attn.heads.1.value.weight"};
  const std::vector<std::string> heads_with_bias = {"attn.heads.0.query.weight",
                                                    "attn.heads.0.query.bias",
                                                    "attn.heads.0.key.weight",
                                                    "attn.heads.0.key.bias",
                                                    "attn.heads.0.value.weight",
                                                    "attn.heads.0.value.bias",
                                                    "attn.heads.1.query.weight",
                                                    "attn.heads.1.query.bias",
                                                    "attn.heads.1.key.weight",
                                                    "attn.heads.1.key.bias",
                                                    "attn.heads.1.value.weight",
                                                    "attn.heads.1.value.bias"};
  struct Names {
    Preset preset;
    std::vector<std::string> before, block_begin, heads, block_end, after;
  };
  const std::vector<std::string> block_end_with_bias = {"attn.proj.weight",
                                                        "attn.proj.bias",
                                                        "ln2.weight",
                                                        "ln2.bias",
                                                        "ffn.up.weight",
                                                        "ffn.up.bias",
                                                        "ffn.down.weight",
                                                        "ffn.down.bias"};
  const Names all[] = {
      {Preset::kClassic,
       {"token_embedding.weight", "position_embedding.weight"},
       {"ln1.weight", "ln1.bias"},
       heads,
       block_end_with_bias,
       {"final_norm.weight", "final_norm.bias", "lm_head.weight", "lm_head.bias"}},
      {Preset::kGpt2,
       {"token_embedding.weight", "position_embedding.weight"},
       {"ln1.weight", "ln1.bias"},
       heads_with_bias,
       block_end_with_bias,
       {"final_norm.weight", "final_norm.bias"}},
      {Preset::kModern,
       {"token_embedding.weight"},
       {"ln1.weight"},
       heads,
       {"attn.proj.weight", "ln2.weight", "ffn.up.weight", "ffn.down.weight"},
       {"final_norm.weight"}},
  };
  for (const Names& names : all) {
    CAPTURE(static_cast<int>(names.preset));
    std::vector<std::string> expected = names.before;
    for (const char* block : {"blocks.0.", "blocks.1."}) {
      for (const auto* part : {&names.block_begin, &names.heads, &names.block_end}) {
        for (const auto& name : *part) expected.push_back(block + name);
      }
    }
    expected.insert(expected.end(), names.after.begin(), names.after.end());
    std::vector<std::string> found;
    for (const auto& [name, tensor] : unique_parameters(*GPT(tiny_config(names.preset)))) {
      found.push_back(name);
    }
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    CHECK(found == expected);
  }
}

TEST_CASE("the optimizer's state is named after the parameters", "[checkpoint]") {
  const SaveTest saved;
  saved.save(saved.dir / "c");
  const auto file = SafetensorsFile::open(saved.dir / "c/optimizer.safetensors");
  for (const auto& [name, tensor] : unique_parameters(*saved.model)) {
    CHECK(file.find("exp_avg." + name) != nullptr);
    CHECK(file.find("exp_avg_sq." + name) != nullptr);
  }
  CHECK(file.find("step") != nullptr);
  CHECK(file.tensors().size() == 2 * unique_parameters(*saved.model).size() + 1);
}

TEST_CASE("a damaged file of any kind is found and named", "[checkpoint]") {
  const SaveTest saved;
  for (const std::string name : kFiles) {
    const fs::path folder = saved.dir / "c";
    const fs::path path = folder / name;
    saved.save(folder);
    const std::string good = read_text(path);
    CAPTURE(name);
    for (const size_t size : {size_t{0}, size_t{1}, good.size() / 2, good.size() - 1}) {
      CAPTURE(size);
      write_text(path, good.substr(0, size));
      CHECK_THAT(open_message(folder), ContainsSubstring(name));
      CHECK_THAT(open_message(folder), ContainsSubstring("truncated"));
    }
    write_text(path, good + "x");
    CHECK_THAT(open_message(folder), ContainsSubstring("too long"));

    std::string flipped = good;
    flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
    write_text(path, flipped);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const auto faults = checkpoint.verify();
    REQUIRE(faults.size() == 1);
    CHECK_THAT(faults[0], ContainsSubstring(name));
    CHECK_THAT(faults[0], ContainsSubstring("checksum"));

    fs::remove(path);
    CHECK_THAT(open_message(folder), ContainsSubstring(name));
    fs::create_directory(path);
    CHECK_THAT(open_message(folder), ContainsSubstring(name));
    fs::remove_all(folder);
  }
}

TEST_CASE("a flipped bit is found when its file is read", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  for (const char* name : kFiles) {
    std::string bytes = read_text(folder / name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
    write_text(folder / name, bytes);
  }
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const torch::Tensor before = saved.model->token_embedding->weight.detach().clone();
  const auto parameters = unique_parameters(*saved.model);
  const auto optimizer = saved.optimizer.state();
  for (const auto& message :
       {message_of<CheckpointError>([&] { checkpoint.state(); }),
        message_of<CheckpointError>([&] { checkpoint.config(); }),
        message_of<CheckpointError>([&] { checkpoint.tokenizer(); }),
        message_of<CheckpointError>([&] { checkpoint.load_parameters(parameters); }),
        message_of<CheckpointError>([&] { checkpoint.load_optimizer(optimizer); })}) {
    CHECK_THAT(message, ContainsSubstring("checksum"));
    CHECK_THAT(message, ContainsSubstring("tril checkpoint list"));
  }
  CHECK_CLOSE(saved.model->token_embedding->weight, before, 0);
  CHECK(checkpoint.verify().size() == 5);
}

TEST_CASE("what is no checkpoint folder says why", "[checkpoint]") {
  const TempDir dir;
  CHECK_THAT(open_message(dir / "absent"), ContainsSubstring("there is no such checkpoint"));
  write_text(dir / "notes.txt", "not a checkpoint");
  CHECK_THAT(open_message(dir / "notes.txt"), ContainsSubstring("expected a folder"));
  fs::create_directory(dir / "empty");
  CHECK_THAT(open_message(dir / "empty"), ContainsSubstring("manifest.json is not there"));
  fs::create_directories(dir / "odd/manifest.json");
  CHECK_THAT(open_message(dir / "odd"), ContainsSubstring("manifest.json is not there"));
}

TEST_CASE("a foreign or damaged manifest is refused before any file is read", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  const Json good = manifest_of(folder);
  const auto message_with = [&](const std::function<void(Json&)>& change) {
    Json manifest = good;
    change(manifest);
    write_text(folder / "manifest.json", manifest.dump());
    return open_message(folder);
  };
  const auto message_of_text = [&](const std::string& text) {
    write_text(folder / "manifest.json", text);
    return open_message(folder);
  };
  CHECK(message_with([](Json&) {}) == "no error");

  for (const char* name :
       {"weights.bin", "../secret", "/etc/passwd", "sub/model.safetensors", ""}) {
    CAPTURE(name);
    const auto message = message_with([&](Json& m) {
      m["files"][name] = {{"bytes", 1}, {"xxh3", std::string(32, '0')}};
    });
    CHECK_THAT(message, ContainsSubstring(fmt::format("unknown file '{}'", name)));
  }
  const Json bad_entries[] = {
      nullptr,
      7,
      Json::object(),
      {{"bytes", 1}},
      {{"bytes", -1}, {"xxh3", std::string(32, '0')}},
      {{"bytes", "1"}, {"xxh3", std::string(32, '0')}},
      {{"bytes", 1.5}, {"xxh3", std::string(32, '0')}},
      {{"bytes", 1}, {"xxh3", 5}},
      {{"bytes", 1}, {"xxh3", "abc"}},
      {{"bytes", 1}, {"xxh3", std::string(32, 'G')}},
  };
  for (const Json& entry : bad_entries) {
    CAPTURE(entry.dump());
    CHECK_THAT(message_with([&](Json& m) { m["files"]["state.json"] = entry; }),
               ContainsSubstring("'state.json' needs bytes and xxh3"));
  }
  CHECK_THAT(message_with([](Json& m) {
               m["files"]["model.safetensors"]["bytes"] = std::numeric_limits<uint64_t>::max();
             }),
             ContainsSubstring("manifest.json says 18446744073709551615"));
  for (const Json& files : {Json(nullptr), Json(3), Json::array()}) {
    CHECK_THAT(message_with([&](Json& m) { m["files"] = files; }),
               ContainsSubstring("'files' must be an object"));
  }
  for (const char* name : {"model.safetensors", "state.json", "config.json", "tokenizer.json"}) {
    CHECK_THAT(message_with([&](Json& m) { m["files"].erase(name); }),
               ContainsSubstring(fmt::format("'{}' is not listed", name)));
  }
  CHECK_THAT(message_with([](Json& m) { m["format_version"] = 2; }),
             ContainsSubstring("format_version 2 is not 1"));
  CHECK_THAT(message_with([](Json& m) { m.erase("format_version"); }),
             ContainsSubstring("no format_version"));
  CHECK_THAT(message_with([](Json& m) { m["format_version"] = "1"; }),
             ContainsSubstring("no format_version"));
  CHECK_THAT(message_with([](Json& m) { m = Json::array(); }),
             ContainsSubstring("no format_version"));
  CHECK_THAT(message_of_text(""), ContainsSubstring("manifest.json"));
  CHECK_THAT(message_of_text("{\"format_version\": 1"), ContainsSubstring("manifest.json"));
  CHECK_THAT(message_of_text(std::string(2 << 20, ' ')), ContainsSubstring("manifest.json"));
}

TEST_CASE("a wrong state file with a right checksum is still refused", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  const Json good = Json::parse(read_text(folder / "state.json"));
  const auto message_with = [&](const std::function<void(Json&)>& change) {
    Json state = good;
    change(state);
    replace_listed(folder, "state.json", state.dump());
    return message_of<CheckpointError>([&] { Checkpoint::open(folder).state(); });
  };
  CHECK(message_with([](Json&) {}) == "no error");
  CHECK_THAT(message_with([](Json& s) { s.erase("windows_seen"); }),
             ContainsSubstring("'windows_seen' is missing"));
  CHECK_THAT(message_with([](Json& s) { s["step"] = "12"; }),
             ContainsSubstring("'step': expected an integer"));
  CHECK_THAT(message_with([](Json& s) { s["step"] = 1.5; }),
             ContainsSubstring("'step': expected an integer"));
  CHECK_THAT(message_with([&](Json& s) { s["step"] = -1; }),
             ContainsSubstring("'step': expected a value >= 0"));
  for (const uint64_t step : {(uint64_t{1} << 62) + 1, std::numeric_limits<uint64_t>::max()}) {
    CHECK_THAT(message_with([&](Json& s) { s["step"] = step; }),
               ContainsSubstring("'step': expected a value of at most 2^62"));
  }
  CHECK_THAT(message_with([](Json& s) { s["precision"] = nullptr; }),
             ContainsSubstring("'precision': expected a string"));
  CHECK_THAT(message_with([](Json& s) { s["validation_loss"] = "low"; }),
             ContainsSubstring("'validation_loss': expected a number or null"));
  CHECK_THAT(message_with([](Json& s) { s["format_version"] = 99; }),
             ContainsSubstring("format_version 99 is not 1"));
}

TEST_CASE("verify reads what the checksums cannot vouch for", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  replace_listed(folder, "model.safetensors", "a foreign file");
  replace_listed(folder, "config.json", "{");
  const auto faults = Checkpoint::open(folder).verify();
  REQUIRE(faults.size() == 2);
  CHECK_THAT(faults[0], ContainsSubstring("config.json"));
  CHECK_THAT(faults[1], ContainsSubstring("model.safetensors"));
}

TEST_CASE("weights without an optimizer state cannot be resumed from", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  Json manifest = manifest_of(folder);
  manifest["files"].erase("optimizer.safetensors");
  write_text(folder / "manifest.json", manifest.dump());
  fs::remove(folder / "optimizer.safetensors");

  const Checkpoint checkpoint = Checkpoint::open(folder);
  CHECK_FALSE(checkpoint.has_optimizer());
  CHECK(checkpoint.verify().empty());
  CHECK_NOTHROW(checkpoint.load_parameters(unique_parameters(*saved.model)));
  const auto message =
      message_of<CheckpointError>([&] { checkpoint.load_optimizer(saved.optimizer.state()); });
  CHECK_THAT(message, ContainsSubstring("weights only"));
  CHECK_THAT(message, ContainsSubstring("Start a new run"));
}

TEST_CASE("all differences between file and model are reported at once", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder);
  ModelConfig config = tiny_config();
  config.vocab_size = 40;
  config.n_blocks = 1;
  config.head_bias = true;
  GPT other = tiny_model(config);
  const torch::Tensor before = other->final_norm->weight.detach().clone();
  {
    const torch::NoGradGuard no_grad;
    saved.model->final_norm->weight.fill_(9);
  }
  saved.save(folder);
  const auto message = message_of<CheckpointError>(
      [&] { Checkpoint::open(folder).load_parameters(unique_parameters(*other)); });
  CHECK_THAT(
      message,
      ContainsSubstring(
          "shape of token_embedding.weight: the file has (32, 16), the config gives (40, 16)"));
  CHECK_THAT(message, ContainsSubstring("missing: lm_head.bias (40)"));
  CHECK_THAT(message, ContainsSubstring("unknown: blocks.1.ln1.weight (16)"));
  CHECK_CLOSE(other->final_norm->weight, before, 0);  // nothing was loaded
}

TEST_CASE("floating-point types are converted, others are refused with the rest", "[checkpoint]") {
  const TempDir dir;
  const torch::Tensor values = torch::tensor({1.5F, -2.25F, 0.0F, 1024.0F});
  for (const auto type : {torch::kFloat64, torch::kFloat16, torch::kBFloat16}) {
    save_tensors(dir / "f", {{"a", values.to(type)}, {"b", torch::ones({2}, torch::kInt64)}});
    const std::vector<NamedTensor> wanted = {{"a", torch::zeros({4})},
                                             {"b", torch::zeros({2}, torch::kInt64)}};
    load_tensors(SafetensorsFile::open(dir / "f"), wanted);
    CHECK_CLOSE(wanted[0].tensor, values, 0);
    CHECK_CLOSE(wanted[1].tensor, torch::ones({2}), 0);
  }
  save_tensors(dir / "f", {{"a", values}, {"b", torch::ones({2}, torch::kInt64)}});
  const std::vector<NamedTensor> wanted = {{"a", torch::zeros({4})}, {"b", torch::zeros({2})}};
  const auto message =
      message_of<CheckpointError>([&] { load_tensors(SafetensorsFile::open(dir / "f"), wanted); });
  CHECK_THAT(message, ContainsSubstring("type of b: the file has I64, expected F32"));
  CHECK_CLOSE(wanted[0].tensor, torch::zeros({4}), 0);  // nothing was loaded
}

TEST_CASE("tied weights stay one tensor through save and load", "[checkpoint]") {
  const SaveTest saved;  // the modern preset ties them
  saved.save(saved.dir / "c");
  const auto file = SafetensorsFile::open(saved.dir / "c/model.safetensors");
  CHECK(file.find("token_embedding.weight") != nullptr);
  CHECK(file.find("lm_head.weight") == nullptr);
  const SaveTest other(tiny_config(), /*seed=*/2);
  Checkpoint::open(saved.dir / "c").load_parameters(unique_parameters(*other.model));
  CHECK(other.model->head_weight().data_ptr() == other.model->token_embedding->weight.data_ptr());
}

TEST_CASE("a checkpoint of the same name is replaced whole", "[checkpoint]") {
  const SaveTest saved;
  const fs::path folder = saved.dir / "c";
  saved.save(folder, {.step = 5, .evaluated_step = 0});
  write_text(folder / "stranger.txt", "left by somebody");
  saved.save(folder, {.step = 5, .evaluated_step = 5});
  CHECK(Checkpoint::open(folder).state().evaluated_step == 5);
  CHECK_FALSE(fs::exists(folder / "stranger.txt"));
  CHECK(count_entries(saved.dir.path()) == 7);  // the folder and its six files
}

TEST_CASE("a save that fails leaves everything as it was", "[checkpoint]") {
  const SaveTest saved;
  const fs::path parent = saved.dir / "checkpoints";
  saved.save(parent / "step_00000001", {.step = 1});
  const size_t n_entries = count_entries(saved.dir.path());

  // The parent's place is taken by a file.
  write_text(saved.dir / "file", "");
  CHECK_THROWS_AS(saved.save(saved.dir / "file/step_00000002"), ResourceError);
  fs::remove(saved.dir / "file");

  // A parameter that cannot be written stops the save half-way.
  const auto optimizer = saved.optimizer.state();
  const auto state = full_state();
  const OrderedJson json = OrderedJson::object();
  const std::vector<NamedTensor> complex = {{"a", torch::zeros({2}, torch::kComplexFloat)}};
  CHECK_THROWS(save_checkpoint(parent / "step_00000001",
                               {.parameters = unique_parameters(*saved.model),
                                .optimizer = complex,
                                .state = state,
                                .config = json,
                                .tokenizer = json}));
  CHECK(count_entries(saved.dir.path()) == n_entries);
  CHECK(Checkpoint::open(parent / "step_00000001").state().step == 1);
  CHECK(Checkpoint::open(parent / "step_00000001").verify().empty());
}

TEST_CASE("a folder that cannot be written is a readable error", "[checkpoint]") {
  if (geteuid() == 0) TRIL_SKIP("root may write anywhere");
  const SaveTest saved;
  fs::create_directory(saved.dir / "checkpoints");
  fs::permissions(saved.dir / "checkpoints", fs::perms::owner_read | fs::perms::owner_exec);
  CHECK_THROWS_AS(saved.save(saved.dir / "checkpoints/step_00000001"), ResourceError);
  CHECK(fs::is_empty(saved.dir / "checkpoints"));
  fs::permissions(saved.dir / "checkpoints", fs::perms::owner_all);
}
