#include <chrono>
#include <cmath>

#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/text_files.h"
#include "tril/base/error.h"
#include "tril/report/html_report.h"
#include "tril/report/live_server.h"
#include "tril/report/run_record.h"

using namespace tril;
using namespace tril::testing;
namespace fs = std::filesystem;

namespace {

std::string step_line(int64_t step, double loss, double elapsed) {
  OrderedJson json;
  json["step"] = step;
  json["tokens"] = 100 * step;
  json["loss"] = loss;
  json["perplexity"] = std::exp(loss);
  json["learning_rate"] = 1e-3 / static_cast<double>(step);
  json["grad_norm"] = 0.1 + 1.0 / static_cast<double>(step);
  json["tokens_per_second"] = 1e4 / 3;
  json["elapsed_seconds"] = elapsed;
  json["memory_bytes"] = 200'000'000 + step;
  return dump_json(json, -1) + "\n";
}

std::string start_line(int64_t step) {
  return R"({"event":"start","step":)" + std::to_string(step) +
         R"(,"time":1700000000,"device":"cpu","threads":2,"precision":"fp32","parameters":12345,)"
         R"("expected_first_loss":4.11,"total_steps":5000})"
         "\n";
}

/// A run with everything in it.
std::string long_run(int64_t n_steps) {
  std::string text = start_line(0);
  for (int64_t step = 1; step <= n_steps; ++step) {
    const double x = static_cast<double>(step);
    text += step_line(step, 1 + 3 * std::exp(-x / 700) + 0.05 * std::sin(x), 0.055 * x);
    if (step % 250 != 0) continue;
    text += R"({"event":"blocks","step":)" + std::to_string(step) +
            R"(,"names":["embedding","block 0","head"],"weight_rms":[0.1,0.2,0.3],)"
            R"("grad_norm":[1,0.5,null]})"
            "\n";
    text += R"({"event":"eval","step":)" + std::to_string(step) + R"(,"validation_loss":)" +
            std::to_string(1.1 + 3 * std::exp(-x / 700)) +
            R"(,"tokens":5000,"bits_per_byte":1.5,"floor":0.12})"
            "\n";
    text += R"({"event":"sample","step":)" + std::to_string(step) +
            R"(,"prompt":"Once","text":" </script><script>alert(1)</script>"})"
            "\n";
  }
  return text;
}

fs::path write_run(const TempDir& dir, const std::string& name, const std::string& metrics) {
  fs::create_directories(dir / name);
  write_text(dir / name / "metrics.jsonl", metrics);
  write_text(dir / name / "config.json", R"({"seed":1,"model":{"n_embed":8},"train":{"steps":5}})");
  return dir / name;
}

}  // namespace

TEST_CASE("a run is read back from its metrics, session after session", "[report]") {
  const std::string text = start_line(0) + step_line(1, 4, 10) + step_line(2, 3, 20) +
                           "half a li\n{\"step\":\"x\"}\n[]\n" + start_line(2) +
                           step_line(3, 2, 5) + step_line(4, 1.5, 9) + "{\"step\":5,\"lo";
  const RunRecord run = make_record("r", text);
  CHECK(run.steps.step == std::vector<double>{1, 2, 3, 4});
  CHECK(run.steps.seconds == std::vector<double>{10, 20, 25, 29});
  CHECK(run.n_sessions == 2);
  CHECK(run.n_bad_lines == 3);
  CHECK(run.start.at("step") == 2);

  // Without start lines (older runs) the clock that goes back tells.
  const RunRecord old =
      make_record("r", step_line(1, 4, 10) + step_line(2, 3, 20) + step_line(3, 2, 5));
  CHECK(old.steps.seconds == std::vector<double>{10, 20, 25});
}

TEST_CASE("the CSV agrees with metrics.jsonl digit for digit", "[report]") {
  const std::string text = long_run(500);
  const std::string csv = metrics_csv(text);
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  CHECK_THAT(line, ContainsSubstring("step,tokens,loss,") && ContainsSubstring("validation_loss"));
  std::vector<Json> steps;
  for (auto& json : parse_metrics(text)) {
    if (!json.contains("event")) steps.push_back(json);
  }
  REQUIRE(steps.size() == 500);
  for (const Json& json : steps) {
    REQUIRE(std::getline(lines, line));
    std::vector<std::string> cells;
    std::istringstream parts(line + ",end");
    for (std::string cell; std::getline(parts, cell, ',');) cells.push_back(cell);
    REQUIRE(cells.size() == 14);
    CHECK(cells[0] == json.at("step").dump());
    CHECK(cells[1] == json.at("tokens").dump());
    CHECK(cells[2] == json.at("loss").dump());
    CHECK(cells[5] == json.at("grad_norm").dump());
    CHECK((cells[9].empty()) == (json.at("step").get<int64_t>() % 250 != 0));
  }
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("the report of 5000 steps is below 1 MB and made in a second", "[report]") {
  const TempDir dir;
  const fs::path path = write_run(dir, "run", long_run(5000));
  const auto start = std::chrono::steady_clock::now();
  const std::string page = html_report({read_run(path)});
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("report of 5000 steps: %zu bytes, %.3f s\n", page.size(), seconds);
  CHECK(page.size() <= 1'000'000);
  CHECK(seconds < 5);  // without sanitizers, far below 1 s
  CHECK(page.find("http://") == page.find("http://www.w3.org/2000/svg"));
  CHECK(page.find("https://") == std::string::npos);
  CHECK(page.find("<script>alert") == std::string::npos);  // texts of a run stay texts
}

TEST_CASE("several runs share one report, and long ones are thinned", "[report]") {
  std::vector<RunRecord> runs;
  for (int r = 0; r < 3; ++r)
    runs.push_back(make_record("runs/r" + std::to_string(r), long_run(9000)));
  const OrderedJson data = report_data(runs, {.most_points = 3000});
  REQUIRE(data.at("runs").size() == 3);
  CHECK(data.at("runs")[1].at("step").size() <= 1000);
  CHECK(data.at("runs")[1].at("logged") == 9000);
  CHECK(data.at("runs")[1].at("step").back() == 9000);
  CHECK(html_report(runs).size() < 1'500'000);
  const auto figures = report_figures(runs);
  for (const auto& [name, svg] : figures) {
    INFO(name);
    CHECK(svg.starts_with("<svg"));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf\"") == std::string::npos);
  }
  CHECK(figures.front().first == "loss");
  CHECK_THAT(figures.front().second, ContainsSubstring(">r1</text>"));
}

TEST_CASE("a run with nothing logged yet still has a report", "[report]") {
  CHECK_THAT(html_report({make_record("empty", "")}), ContainsSubstring("</html>"));
  CHECK_THAT(html_report({make_record("started", start_line(0))}), ContainsSubstring("</html>"));
  const std::string not_finite = "{\"step\":1,\"loss\":null,\"tokens\":1}\n";
  CHECK_THAT(html_report({make_record("nan", not_finite)}), ContainsSubstring("</html>"));
}

TEST_CASE("what is no run is refused by name", "[report]") {
  const TempDir dir;
  CHECK_THROWS_WITH(read_run(dir / "nowhere"), ContainsSubstring("does not exist"));
  fs::create_directories(dir / "empty");
  CHECK_THROWS_WITH(read_run(dir / "empty"), ContainsSubstring("metrics.jsonl"));
}

TEST_CASE("damaged metrics never stop a report", "[report]") {
  const std::string good = long_run(260);
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::string text = good.substr(0, 40'000);
    for (int k = 0; k < 40; ++k) {
      state = state * 1664525U + 1013904223U;
      text[(state >> 8) % text.size()] = static_cast<char>(state >> 24);
    }
    const RunRecord run = make_record("damaged", text);
    CHECK(run.steps.step.size() == run.steps.loss.size());
    if (round % 20 == 0) CHECK(html_report({run}).size() > 1000);
  }
}

TEST_CASE("smoothing starts without bias and skips what is not finite", "[report]") {
  const double nan = std::nan("");
  const auto s = smoothed({2, 2, nan, 2, 4}, 0.9);
  CHECK(s[0] == Approx(2));
  CHECK(s[1] == Approx(2));
  CHECK(std::isnan(s[2]));
  CHECK(s[3] == Approx(2));
  // (4 + 0.9 * 2 + 0.81 * 2 + 0.729 * 2) / (1 + 0.9 + 0.81 + 0.729)
  CHECK(s[4] == Approx((4 + 2 * (0.9 + 0.81 + 0.729)) / 3.439));
  CHECK(smoothed({1, 5}, 0) == std::vector<double>{1, 5});
}

TEST_CASE("the live server answers its own machine only", "[report]") {
  const auto answer = [](const std::string& path) -> HttpAnswer {
    if (path == "/fail") throw DataError("broken");
    return {.body = "path " + path};
  };
  const auto ask = [&](const std::string& request) { return http_response(request, 80, answer); };
  const std::string host = "Host: 127.0.0.1:80\r\n\r\n";
  CHECK_THAT(ask("GET /a?b HTTP/1.1\r\n" + host),
             ContainsSubstring("200 OK") && ContainsSubstring("\r\n\r\npath /a"));
  CHECK_THAT(ask("GET / HTTP/1.1\r\nhost: LOCALHOST:80\r\n\r\n"), ContainsSubstring("200 OK"));
  CHECK_THAT(ask("HEAD / HTTP/1.1\r\n" + host), ContainsSubstring("Content-Length: 6"));
  CHECK(ask("HEAD / HTTP/1.1\r\n" + host).ends_with("\r\n\r\n"));
  CHECK_THAT(ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), ContainsSubstring(" 403 "));
  CHECK_THAT(ask("GET / HTTP/1.1\r\n\r\n"), ContainsSubstring(" 403 "));
  CHECK_THAT(ask("POST / HTTP/1.1\r\n" + host), ContainsSubstring(" 405 "));
  CHECK_THAT(ask("\r\n\r\n"), ContainsSubstring(" 400 "));
  CHECK_THAT(ask("GET /fail HTTP/1.1\r\n" + host),
             ContainsSubstring(" 500 ") && ContainsSubstring("broken"));
}
