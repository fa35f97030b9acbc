// What whoever trains or learns sees: the terminal, reports, and the inside of a model.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmath>
#include <csignal>
#include <numeric>
#include <set>

#include "cli/terminal.h"
#include "cli/workspace.h"
#include "tril/plot/tensorboard.h"

using namespace tril::testing;
namespace fs = std::filesystem;
using tril::Json;

namespace {

/// What a server on this machine answers.
std::string http_get(int port, const std::string& path, const std::string& host) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
    if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
      char buffer[4096];
      for (ssize_t n = 0; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
        answer.append(buffer, static_cast<size_t>(n));
      }
    }
  }
  close(fd);
  return answer;
}

std::vector<int64_t> logged_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  std::istringstream lines(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && !json.contains("event"))
      steps.push_back(json.at("step").get<int64_t>());
  }
  return steps;
}

std::vector<int64_t> tensorboard_steps(const fs::path& run) {
  std::vector<int64_t> steps;
  for (const auto& event :
       tril::decode_tensorboard(read_text(run / "tensorboard/events.out.tfevents.tril"))) {
    if (!event.scalars.empty() && event.scalars[0].tag == "train/loss") steps.push_back(event.step);
  }
  return steps;
}

std::vector<int64_t> one_to(int64_t n) {
  std::vector<int64_t> steps(static_cast<size_t>(n));
  std::iota(steps.begin(), steps.end(), 1);
  return steps;
}

bool has_line(const std::vector<std::string>& screen, const std::string& part) {
  return std::any_of(screen.begin(), screen.end(), [&](const auto& line) {
    return line.find(part) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("inspect attention shows every head, in all its forms", "[cli][inspect]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const Json json = workspace.json("inspect attention run --json --prompt", {"the cat the"});
  CHECK(json.at("heads").size() == 2);
  CHECK(json.at("tokens").size() == 11);
  CHECK(json.at("path_difference").get<double>() < 1e-4);
  for (const auto& head : json.at("heads")) {
    for (size_t i = 0; i < 11; ++i) {
      double sum = 0;
      for (const auto& w : head.at("weights")[i]) sum += w.get<double>();
      CHECK(head.at("weights")[i].size() == i + 1);
      CHECK(sum == Approx(1).margin(1e-5));
    }
  }
  const auto text = workspace.require("inspect attention run --prompt", {"the cat the"});
  CHECK_THAT(text.out, ContainsSubstring("does most") && ContainsSubstring("block 0, head"));
  CHECK_THAT(text.out, ContainsSubstring("differ by at most"));

  workspace.require(
      "inspect attention run --out a.html --out a.svg --out a.csv --out a.json --prompt",
      {"the cat the"});
  CHECK_THAT(read_text(workspace / "a.html"), ContainsSubstring("default-src 'none'"));
  CHECK_THAT(read_text(workspace / "a.svg"), ContainsSubstring("block 0 head 1"));
  CHECK(Json::parse(read_text(workspace / "a.json")) == json);
  const std::string csv = read_text(workspace / "a.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 1 + 2 * 66);
}

TEST_CASE("inspect attention crops long texts and refuses heads that are not there",
          "[cli][inspect]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const auto longer =
      workspace.tril("inspect attention run --json --prompt", {"the cat sat on the mat the dog"});
  REQUIRE(longer.exit_code == 0);
  CHECK_THAT(longer.err, ContainsSubstring("kept the last 16 of 30 tokens"));
  CHECK(Json::parse(longer.out).at("tokens").size() == 16);
  CHECK(workspace.json("inspect attention run --json --prompt t").at("tokens").size() == 1);
  // No text: the beginning of the validation split.
  CHECK(workspace.json("inspect attention run --json").at("tokens").size() == 16);

  const Json several = workspace.json("inspect attention run --windows 5 --json");
  CHECK(several.at("texts") == 5);
  CHECK(several.at("heads")[0].at("repeats").get<int>() >
        workspace.json("inspect attention run --json").at("heads")[0].at("repeats").get<int>());
  refused(workspace.tril("inspect attention run --windows 5 --prompt t"), 2);

  CHECK_THAT(refused(workspace.tril("inspect attention run --block -1 --prompt t"), 2),
             ContainsSubstring("blocks 0 to 0"));
  CHECK_THAT(refused(workspace.tril("inspect attention run --head 99 --prompt t"), 2),
             ContainsSubstring("heads 0 to 1"));
  CHECK_THAT(refused(workspace.tril("inspect attention run --out a.png --prompt t"), 2),
             ContainsSubstring(".html"));
  CHECK_THAT(refused(workspace.tril("inspect attention run --prompt", {"the Zebra"}), 3),
             ContainsSubstring("'Z' (U+005A)"));
  CHECK_THAT(refused(workspace.tril("inspect attention run --prompt", {""}), 3),
             ContainsSubstring("empty"));
  refused(workspace.tril("inspect attention nowhere --prompt t"), 4);
  CHECK_FALSE(fs::exists(workspace / "a.png"));
}

TEST_CASE("inspect tokens adds up to what evaluate says", "[cli][inspect]") {
  const Workspace workspace;
  workspace.require(kTrain);
  write_text(workspace / "other.txt", "the dog sat on a mat on the cat on the dog");
  const Json tokens = workspace.json("inspect tokens run --json --prompt-file other.txt");
  const Json evaluated = workspace.json("evaluate run --json --data other.txt");
  CHECK(tokens.at("loss").get<double>() ==
        Approx(evaluated.at("loss").get<double>()).epsilon(1e-5));
  CHECK(tokens.at("tokens").size() == 42);
  CHECK_FALSE(tokens.at("tokens")[0].contains("loss"));
  workspace.require("inspect tokens run --prompt-file other.txt --out t.html --out t.csv");
  CHECK_THAT(read_text(workspace / "t.html"), ContainsSubstring("surprised"));
  CHECK_THAT(read_text(workspace / "t.csv"), ContainsSubstring("\n0,"));
  CHECK_THAT(workspace.require("inspect tokens run --prompt-file other.txt").out,
             ContainsSubstring("most surprising"));
  refused(workspace.tril("inspect tokens run --prompt t"), 3);
}

TEST_CASE("inspect weights lists every tensor and the neighbours in the embedding",
          "[cli][inspect]") {
  const Workspace workspace;
  workspace.require(kTrain);
  const Json json = workspace.json("inspect weights run --json --token at");
  std::set<std::string> names;
  for (const auto& w : json.at("weights")) names.insert(w.at("name").get<std::string>());
  CHECK(names.contains("token_embedding.weight"));
  CHECK(names.contains("blocks.0.attn.heads.1.query.weight"));
  CHECK(json.at("neighbours").size() == 2);
  workspace.require("inspect weights run --out w.html --out w.csv");
  CHECK_THAT(workspace.require("inspect weights run").out, ContainsSubstring("stable rank"));
}

TEST_CASE("TensorBoard, CSV and metrics.jsonl hold the same numbers", "[cli][report]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) +
                    "--set logging.tensorboard=true --set train.eval_interval=5");
  workspace.require("report run --csv m.csv");
  const RunLog log = read_metrics(workspace / "run");

  std::istringstream csv(read_text(workspace / "m.csv"));
  std::string line;
  std::getline(csv, line);
  for (int64_t step = 1; step <= 10; ++step) {
    REQUIRE(std::getline(csv, line));
    const Json& json = log.steps.at(step);
    CHECK(line.starts_with(json.at("step").dump() + "," + json.at("tokens").dump() + "," +
                           json.at("loss").dump() + "," + json.at("perplexity").dump() + ","));
  }
  int n_scalars = 0;
  for (const auto& event : tril::decode_tensorboard(
           read_text(workspace / "run/tensorboard/events.out.tfevents.tril"))) {
    for (const auto& scalar : event.scalars) {
      ++n_scalars;
      const std::string key = scalar.tag.substr(scalar.tag.find('/') + 1);
      const double expected = scalar.tag.starts_with("train/")
                                  ? log.steps.at(event.step).at(key).get<double>()
                              : key == "loss" ? log.validation_losses.at(event.step)
                                              : std::nan("");
      if (!std::isnan(expected)) CHECK(scalar.value == static_cast<float>(expected));
    }
  }
  CHECK(n_scalars == 10 * 5 + 2 * 3);
}

TEST_CASE("TensorBoard's own package reads the event file", "[cli][report][slow]") {
  const char* chosen = std::getenv("TRIL_PYTHON");
  const fs::path peers = fs::path(TRIL_SOURCE_DIR) / ".deps/peers/bin/python";
  const std::string python = chosen != nullptr   ? chosen
                             : fs::exists(peers) ? peers.string()
                                                 : "python3";
  if (run_process({python, "-c", "import tensorboard"}).exit_code != 0) {
    TRIL_SKIP("no Python with the package tensorboard (set TRIL_PYTHON to one)");
  }
  const Workspace workspace;
  workspace.require(std::string(kTrain) +
                    "--set logging.tensorboard=true --set train.eval_interval=5");
  const RunLog log = read_metrics(workspace / "run");
  const fs::path script = fs::path(TRIL_SOURCE_DIR) / "scripts/make_tensorboard_golden.py";
  const auto read =
      run_process({python,
                   script.string(),
                   "--read",
                   (workspace / "run/tensorboard/events.out.tfevents.tril").string()});
  INFO(read.err);
  REQUIRE(read.exit_code == 0);
  int n_compared = 0;
  std::istringstream lines(read.out);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    const auto tag = json.at("tag").get<std::string>();
    const auto step = json.at("step").get<int64_t>();
    const auto value = static_cast<float>(json.at("value").get<double>());
    if (tag == "validation/loss") {
      CHECK(value == static_cast<float>(log.validation_losses.at(step)));
    } else if (tag.starts_with("train/")) {
      CHECK(value == static_cast<float>(log.steps.at(step).at(tag.substr(6)).get<double>()));
    } else {
      continue;
    }
    ++n_compared;
  }
  CHECK(n_compared == 10 * 5 + 2);
}

TEST_CASE("after kill -9 and resume no step is missing or there twice", "[cli][report]") {
  const Workspace workspace;
  auto running = workspace.start(std::string(kTrain) +
                                 "--set logging.tensorboard=true --set train.steps=90000");
  REQUIRE(running->wait_for_err("step    57/90000"));
  running->send(SIGKILL);
  running->wait();
  const auto before = logged_steps(workspace / "run");
  CHECK(before.size() >= 57);
  const int64_t n = before.back() + 20;
  workspace.require("train --run-dir run --resume --set train.steps=" + std::to_string(n));
  CHECK(logged_steps(workspace / "run") == one_to(n));
  CHECK(tensorboard_steps(workspace / "run") == one_to(n));
}

TEST_CASE("a report is one page; figures and several runs too", "[cli][report]") {
  const Workspace workspace;
  workspace.require(std::string(kTrain) +
                    "--set train.eval_interval=5 --set train.sample_interval=5 "
                    "--set train.sample_tokens=10");
  workspace.require("train --config tiny.json --run-dir other --set model.n_embed=8");
  workspace.require("report run --out report.html --svg figures");
  const std::string page = read_text(workspace / "report.html");
  CHECK_THAT(page, ContainsSubstring("expected_first_loss") && ContainsSubstring("\"samples\":[{"));
  CHECK_THAT(page, ContainsSubstring("\"names\":[\"embedding\",\"block 0\",\"head\"]"));
  const auto figures = names_in(workspace / "figures");
  CHECK(std::count(figures.begin(), figures.end(), "loss.svg") == 1);
  CHECK(std::count(figures.begin(), figures.end(), "weight_rms.svg") == 1);
  workspace.require("report run other --out both.html");
  CHECK_THAT(read_text(workspace / "both.html"), ContainsSubstring("2 runs"));

  CHECK_THAT(refused(workspace.tril("report run"), 2), ContainsSubstring("--out FILE.html"));
  CHECK_THAT(refused(workspace.tril("report run other --csv x.csv"), 2),
             ContainsSubstring("one run"));
  CHECK_THAT(refused(workspace.tril("report nowhere --out x.html"), 4),
             ContainsSubstring("nowhere"));
  CHECK_FALSE(fs::exists(workspace / "x.html"));
}

TEST_CASE("a live report answers while a run trains, and ends on Ctrl-C", "[cli][report]") {
  const Workspace workspace;
  auto training = workspace.start(std::string(kTrain) + "--set train.steps=100000");
  REQUIRE(training->wait_for_err("step      5/100000"));
  auto server = workspace.start("report run --live");
  REQUIRE(server->wait_for_err("http://127.0.0.1:"));
  const std::string err = server->err_so_far();
  const int port = std::stoi(err.substr(err.find("127.0.0.1:") + 10));
  const std::string host = "127.0.0.1:" + std::to_string(port);

  CHECK_THAT(http_get(port, "/", host), ContainsSubstring("connect-src 'self'"));
  const auto last_step = [&] {
    const std::string answer = http_get(port, "/data.json", host);
    return Json::parse(answer.substr(answer.find("\r\n\r\n") + 4))
        .at("runs")[0]
        .at("step")
        .back()
        .get<int64_t>();
  };
  const int64_t before = last_step();
  int64_t after = before;
  for (int i = 0; i < 100 && after == before; ++i) {
    usleep(20'000);
    after = last_step();
  }
  CHECK(after > before);  // fresh each time
  CHECK_THAT(http_get(port, "/", "evil.example"), ContainsSubstring("403"));
  CHECK_THAT(http_get(port, "/../text.txt", host), ContainsSubstring("404"));
  CHECK_THAT(refused(workspace.tril("report run --live --port " + std::to_string(port)), 2),
             ContainsSubstring("--port"));
  server->send(SIGINT);
  CHECK(server->wait().exit_code == 0);
  training->send(SIGINT);
  CHECK(training->wait().exit_code == 130);
}

TEST_CASE("on a terminal one line stays alive, with a chart above it", "[cli]") {
  const Workspace workspace;
  const auto options = workspace.options();
  const auto train = [&](const std::string& run, unsigned short columns, const char* locale) {
    auto command = split_words(
        "train --config tiny.json --set train.steps=40 "
        "--set train.eval_interval=20 --run-dir " +
        run);
    command.insert(command.begin(), TRIL_BINARY);
    return run_on_terminal(command,
                           options.folder,
                           {{"TRIL_CACHE", *options.environment.at("TRIL_CACHE")},
                            {"TERM", "xterm"},
                            {"LC_ALL", locale}},
                           columns,
                           30);
  };
  const auto wide = train("wide", 160, "C.UTF-8");
  CHECK(wide.exit_code == 0);
  CHECK_THAT(wide.screen, ContainsSubstring("\r\033[J") && ContainsSubstring("ETA"));
  const auto screen = play_screen(wide.screen, 160);
  CHECK(has_line(screen, "validation loss"));
  CHECK(has_line(screen, "\u2502"));  // the chart stays at the end
  CHECK(has_line(screen, "done: step 40"));
  CHECK_FALSE(has_line(screen, "ETA"));  // the line does not

  const auto narrow = train("narrow", 44, "C");
  CHECK(narrow.exit_code == 0);
  for (const auto& update : {"step  1/40", "step 40/40"}) {
    CHECK_THAT(narrow.screen, ContainsSubstring(update));
  }
  CHECK(narrow.screen.find("\u2502") == std::string::npos);
  const std::string live = narrow.screen.substr(narrow.screen.find("step  1/40"), 43);
  CHECK_THAT(live, ContainsSubstring("ETA"));  // the most important fields fit
}

TEST_CASE("a reader that goes away is no error", "[cli]") {
  const Workspace workspace;
  const auto train = workspace.bash(
      "set -o pipefail; \"$0\" train --config tiny.json --run-dir run 2>&1 | head -2");
  CHECK(train.exit_code == 0);
  CHECK(logged_steps(workspace / "run") == one_to(10));
  const auto inspect = workspace.bash(
      "set -o pipefail; \"$0\" inspect attention run --prompt 'the cat' --json | head -c 10");
  CHECK(inspect.exit_code == 0);
  const auto csv = workspace.bash("set -o pipefail; \"$0\" report run --csv - | head -1");
  CHECK(csv.exit_code == 0);
}

TEST_CASE("the start of a run answers what users ask, and its end what came out", "[cli]") {
  const Workspace workspace;
  const auto result = workspace.require(std::string(kTrain) + "--set train.eval_interval=5");
  for (const char* part : {"cpu, 1 threads, fp32",
                           "parameters",
                           "64 tokens each",
                           "epochs in all",
                           "expected first loss 2.565 = ln 13",
                           "saves       every 5 steps, at each best validation loss, at the end",
                           "memory      about",
                           "smoothed",
                           "trained     640 tokens in",
                           "best validation loss"}) {
    CHECK_THAT(result.err, ContainsSubstring(part));
  }
  CHECK(result.err.find('\033') == std::string::npos);  // plain lines
  const auto quiet = workspace.tril("train --config tiny.json --run-dir q --quiet");
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.err.empty());
}
