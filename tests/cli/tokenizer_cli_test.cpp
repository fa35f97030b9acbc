// tril tokenizer, and training on GPT-2's tokens, through the real program.

#include "cli/workspace.h"
#include "support/gpt2_vocabulary.h"
#include "support/shared_data.h"
#include "tril/base/utf8.h"

using namespace tril;
using namespace tril::testing;

namespace {

/// GPT-2's vocabulary for a child process, or nothing, wherever it is looked for.
ProcessOptions with_gpt2(const std::optional<std::filesystem::path>& folder,
                         std::string input = {}) {
  ProcessOptions options{.input = std::move(input)};
  options.environment["TRIL_GPT2_DIR"] =
      folder ? std::optional(std::filesystem::absolute(*folder).string()) : std::nullopt;
  return options;
}

}  // namespace

TEST_CASE("a BPE vocabulary is trained, encodes, decodes and trains a model", "[cli]") {
  const Workspace workspace;
  workspace.require("tokenizer train text.txt --vocab-size 300 --out tok.json");
  const std::string first = read_text(workspace / "tok.json");
  CHECK_THAT(refused(workspace.tril("tokenizer train text.txt --vocab-size 300 --out tok.json"), 2),
             ContainsSubstring("--overwrite"));
  workspace.require("tokenizer train text.txt --vocab-size 300 --out tok.json --overwrite",
                    {"--threads", "2"});
  CHECK(read_text(workspace / "tok.json") == first);

  const Json info = workspace.json("tokenizer info --tokenizer tok.json --json");
  CHECK(info.at("kind") == "bpe");
  CHECK(info.at("vocab_size") == info.at("end_of_text").get<int64_t>() + 1);
  CHECK(info.at("special_tokens").size() == 1);

  const auto encoded = workspace.json("tokenizer encode --tokenizer tok.json --json text.txt");
  CHECK(encoded.at("ids").size() < small_text().size() / 2);
  CHECK(workspace.tril("tokenizer decode --tokenizer tok.json -", {}, {.input = encoded.dump()})
            .out == small_text());

  workspace.require("train --config tiny.json --run-dir run",
                    {"--set", "data.tokenizer=./tok.json", "--set", "data.validation_fraction=0"});
  std::filesystem::remove(workspace / "tok.json");  // the run has what it needs
  workspace.require("train --run-dir run --resume", {"--set", "train.steps=12"});
  CHECK(workspace.tril("generate run --max-new-tokens 5 --temperature 0").exit_code == 0);
  CHECK(workspace.json("evaluate run --data text.txt --json").at("bytes").get<size_t>() <=
        small_text().size());
}

TEST_CASE("pieces of tokens are valid JSON, text and HTML whatever bytes they hold", "[cli]") {
  const Workspace workspace;  // CASES C72
  const std::string text = "<&>\n\U0001F917 \xC3\xA9\xFF\x1B[0m\\";
  const auto pieces =
      workspace.json("tokenizer encode --tokenizer byte --json --pieces -", {}, {.input = text});
  REQUIRE(pieces.at("ids").size() == text.size());
  CHECK(pieces.at("pieces")[0] == "<");
  CHECK(pieces.at("pieces")[4] == "\\xf0");
  CHECK(pieces.at("pieces").back() == "\\\\");
  CHECK_THAT(
      workspace.tril("tokenizer encode --tokenizer byte --pieces -", {}, {.input = text}).out,
      ContainsSubstring("240  \"\\xf0\""));

  const auto bars = workspace.tril("tokenizer view --tokenizer byte -", {}, {.input = text});
  CHECK(bars.out.starts_with("<|&|>|\\n\n|\\xf0|\\x9f|"));
  CHECK(bars.out.find('\x1B') == std::string::npos);
  const auto colours =
      workspace.tril("tokenizer view --tokenizer byte --color always -", {}, {.input = text});
  CHECK_THAT(colours.out, ContainsSubstring("\x1B[48;5;"));
  CHECK_THAT(colours.out,
             ContainsSubstring("\\x1b"));  // the text's own escape is shown, not obeyed

  const auto page =
      workspace.tril("tokenizer view --tokenizer byte --html page.html -", {}, {.input = text});
  CHECK(page.exit_code == 0);
  const std::string html = read_text(workspace / "page.html");
  CHECK_THAT(html, ContainsSubstring("&lt;</span>"));
  CHECK_THAT(html, ContainsSubstring("<i>f0</i>"));
  CHECK_THAT(html, ContainsSubstring("title=\"id 38, bytes 26\">&amp;</span>"));
  CHECK(!find_invalid_utf8(html));
  CHECK(html.find('\x1B') == std::string::npos);
}

TEST_CASE("the tokenizer gpt2 without its vocabulary names the script that brings it", "[cli]") {
  const Workspace workspace;
  std::filesystem::create_directory(workspace / "empty");
  CHECK_THAT(refused(workspace.tril("tokenizer encode --tokenizer gpt2 --vocab empty text.txt"), 3),
             ContainsSubstring("scripts/fetch_gpt2_vocab.sh"));
}

TEST_CASE("GPT-2 tokens reach the command line", "[cli]") {
  const auto folder = gpt2_folder();
  if (!folder) TRIL_SKIP("GPT-2's vocabulary is not here");
  const Workspace workspace;
  const auto ids = [&](const std::string& options, const std::string& text) {
    return workspace
        .json("tokenizer encode --tokenizer gpt2 --json " + options + " -",
              {},
              with_gpt2(folder, text))
        .at("ids");
  };
  CHECK(ids("", "hello world") == Json{31373, 995});
  CHECK(ids("", "a<|endoftext|>b") == Json{64, 27, 91, 437, 1659, 5239, 91, 29, 65});  // CASES C14
  CHECK(ids("--allow-special", "a<|endoftext|>b") == Json{64, 50256, 65});
  // Longer than one block, from stdin, and pieces of no end.
  const std::string words = repeat("Not all those who wander are lost. ", 60'000);
  CHECK(ids("", words).size() == 60'000 * 8 + 1);
  CHECK(workspace
            .tril("tokenizer decode --tokenizer gpt2 -", {}, with_gpt2(folder, "31373 995 50256"))
            .out == "hello world<|endoftext|>");
}

TEST_CASE("a model on GPT-2 tokens of tinyshakespeare trains, resumes bit for bit and generates",
          "[cli][slow]") {
  const auto folder = gpt2_folder();
  const auto text = shared_data("tinyshakespeare.txt");
  if (!folder || !text) TRIL_SKIP("GPT-2's vocabulary or tinyshakespeare is not here");
  const Workspace workspace;
  std::filesystem::copy(*text, workspace / "tinyshakespeare.txt");
  const std::vector<std::string> sizes = {"--set",
                                          "data.train=tinyshakespeare.txt",
                                          "--set",
                                          "data.tokenizer=gpt2",
                                          "--set",
                                          "model.vocab_multiple=128",
                                          "--set",
                                          "model.n_embed=32"};
  const auto run = [&](const std::string& line, std::vector<std::string> more) {
    const auto result = workspace.tril(line, more, with_gpt2(folder));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return result;
  };
  run("train --config tiny.json --run-dir straight", sizes);
  auto half = sizes;
  half.insert(half.end(), {"--set", "train.steps=5", "--set", "schedule.decay_steps=10"});
  run("train --config tiny.json --run-dir stopped", half);
  // A resumed run needs no vocabulary files.
  const auto resumed = workspace.tril("train --run-dir stopped --resume --set train.steps=10");
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == 0);
  const std::string weights = "checkpoints/step_00000010/model.safetensors";
  CHECK(fingerprint_file(workspace / ("straight/" + weights), FileRole::kData) ==
        fingerprint_file(workspace / ("stopped/" + weights), FileRole::kData));
  CHECK(workspace.json("generate stopped --prompt ROMEO: --max-new-tokens 5 --json")
            .at("samples")[0]
            .at("ids")
            .size() == 5);
}
