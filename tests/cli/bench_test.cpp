// tril bench, from outside.

#include <csignal>

#include "cli/workspace.h"

using namespace tril::testing;
using tril::Json;
namespace fs = std::filesystem;

namespace {

/// A shape that takes milliseconds.
const std::string kTiny =
    "bench --threads 1 --seconds 0 --new-tokens 5 --set model.n_embed=16 --set model.n_head=2 "
    "--set model.n_blocks=1 --set model.context_length=8 --set train.batch_size=2 ";

}  // namespace

TEST_CASE("bench reports speed, parts and memory as one JSON object", "[cli][bench]") {
  const Workspace workspace;
  const Json json = workspace.json(kTiny + "--json");
  CHECK(json.at("tokens_per_step") == 16);
  CHECK(json.at("precision") == "fp32");
  CHECK(json.at("model").at("vocab_size") == 65);
  for (const char* key : {"tokens_per_second",
                          "step_seconds",
                          "flops_per_second",
                          "share_of_gemm",
                          "generated_tokens_per_second"}) {
    INFO(key);
    const auto low = json.at(key).at("low").get<double>();
    const auto median = json.at(key).at("median").get<double>();
    const auto high = json.at(key).at("high").get<double>();
    CHECK((0 < low && low <= median && median <= high));
  }
  CHECK(json.at("gemm_flops_per_second").size() == 2);
  CHECK(json.at("phase_seconds").size() == 7);
  CHECK(json.at("products").size() == 5);
  CHECK(json.at("peak_memory_bytes").get<int64_t>() > 10'000'000);
}

TEST_CASE("bench prints a table, and leaves nothing behind", "[cli][bench]") {
  const Workspace workspace;
  fs::create_directory(workspace / "tmp");
  const auto before = names_in(workspace / "");
  ProcessOptions with;
  with.environment["TMPDIR"] = (workspace / "tmp").string();
  const auto result = workspace.tril(kTiny + "--precision bf16", {}, with);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (const char* text :
       {"share of GEMM", "attention", "tokens/s", "head x1", ", bf16", "memory"}) {
    CHECK_THAT(result.out, ContainsSubstring(text));
  }
  CHECK(names_in(workspace / "tmp").empty());
  CHECK(names_in(workspace / "") == before);
}

TEST_CASE("bench writes a trace without the profiler's own messages", "[cli][bench]") {
  const Workspace workspace;
  const auto result = workspace.tril(kTiny + "--json --profile trace.json");
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, ContainsSubstring("trace.json"));
  CHECK(result.err.find("ERROR") == std::string::npos);
  CHECK(result.err.find("USDT") == std::string::npos);
  CHECK(Json::parse(read_text(workspace / "trace.json")).contains("traceEvents"));
}

TEST_CASE("bench measures a config on its own data", "[cli][bench]") {
  const Workspace workspace;
  const Json json =
      workspace.json("bench --seconds 0 --json --config tiny.json --set train.steps=1");
  CHECK(json.at("model").at("vocab_size") == 13);
  CHECK(json.at("tokens_per_step") == 64);
  refused(workspace.tril("bench --seconds 0 --config tiny.json --set data.train=none.txt"), 3);
}

TEST_CASE("bench refuses what it cannot measure", "[cli][bench]") {
  const Workspace workspace;
  CHECK(workspace.tril("bench --shape enormous").exit_code == 2);
  CHECK(workspace.tril("bench --shape small --config tiny.json").exit_code == 2);
  refused(workspace.tril("bench --precision fp64"), 2);
  refused(workspace.tril("bench --set model.vocab_size=0"), 2);
  refused(workspace.tril("bench --set train.batch_size=1000000"), 6);
  const std::string message = refused(workspace.tril(kTiny + "--profile none/trace.json"), 2);
  CHECK_THAT(message, ContainsSubstring("none"));
}

TEST_CASE("bench ends on a signal, without a result", "[cli][bench]") {
  const Workspace workspace;
  fs::create_directory(workspace / "tmp");
  ProcessOptions with;
  with.environment["TMPDIR"] = (workspace / "tmp").string();
  const auto bench = workspace.start("bench --threads 1 --seconds 1000 --log-level debug", with);
  for (int i = 0; i < 3000 && names_in(workspace / "tmp").empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  bench->send(SIGINT);
  const auto result = bench->wait();
  CHECK(result.exit_code == 130);
  CHECK(result.out.empty());
  CHECK(names_in(workspace / "tmp").empty());
}
