// tril report: curves of one or several runs as a page, as figures, or as numbers.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <memory>

#include "commands.h"
#include "output.h"
#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/report/html_report.h"
#include "tril/report/live_server.h"
#include "tril/report/run_record.h"
#include "tril/train/progress.h"
#include "tril/train/stop_signal.h"

namespace tril::cli {
namespace fs = std::filesystem;
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  std::string csv;
  std::string svg_folder;
  bool live = false;
  uint16_t port = 0;
};

std::vector<RunRecord> read_runs(const ReportArguments& args) {
  std::vector<RunRecord> runs;
  for (const auto& run : args.runs) {
    runs.push_back(read_run(fs::path(run)));
    if (runs.back().n_bad_lines > 0) {
      spdlog::warn("{}: {} lines of metrics.jsonl cannot be read; the report is without them",
                   run,
                   runs.back().n_bad_lines);
    }
  }
  return runs;
}

void write(const fs::path& path, const std::string& content) {
  write_file_atomically(path, content);
  spdlog::info("wrote {} ({})", path.string(), format_bytes(static_cast<double>(content.size())));
}

void write_csv(const ReportArguments& args) {
  if (args.runs.size() != 1) {
    throw ConfigError(fmt::format("--csv takes one run, found {}", args.runs.size()));
  }
  read_run(args.runs.front());  // says what is wrong with it
  const std::string csv =
      metrics_csv(read_file(fs::path(args.runs.front()) / "metrics.jsonl", FileRole::kCheckpoint));
  if (args.csv == "-") {
    write_out(csv);
  } else {
    write(args.csv, csv);
  }
}

void write_figures(const ReportArguments& args, const std::vector<RunRecord>& runs) {
  const fs::path folder(args.svg_folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw ResourceError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  }
  const auto figures = report_figures(runs);
  for (const auto& [name, svg] : figures) write_file_atomically(folder / (name + ".svg"), svg);
  spdlog::info("wrote {} figures into {}", figures.size(), folder.string());
}

int serve(const ReportArguments& args) {
  LiveServer server(args.port);
  spdlog::info("live on http://127.0.0.1:{}/ (this machine only); Ctrl-C ends it", server.port());
  const auto answer = [&](const std::string& path) -> HttpAnswer {
    const ReportOptions options{.live = true};
    if (path == "/") return {.body = html_report(read_runs(args), options)};
    if (path == "/data.json") {
      return {.type = "application/json",
              .body = dump_json(report_data(read_runs(args), options), /*indent=*/-1)};
    }
    return {.status = 404, .type = "text/plain", .body = "only / and /data.json\n"};
  };
  server.run(answer, [] { return stop_signal() != 0; });
  return 0;
}

int report(const ReportArguments& args) {
  const bool has_output = !args.out.empty() || !args.csv.empty() || !args.svg_folder.empty();
  if (!has_output && !args.live) {
    throw ConfigError("say what to make: --out FILE.html, --csv FILE, --svg FOLDER or --live");
  }
  const auto runs = read_runs(args);
  if (!args.out.empty()) write(args.out, html_report(runs));
  if (!args.csv.empty()) write_csv(args);
  if (!args.svg_folder.empty()) write_figures(args, runs);
  return args.live ? serve(args) : 0;
}

}  // namespace

CommandEntry add_report_command(CLI::App& app, CommonOptions&) {
  auto* command =
      app.add_subcommand("report", "Curves, samples and comparison of runs, as a page or as files");
  auto args = std::make_shared<ReportArguments>();
  command->add_option("RUN", args->runs, "Run folders; several are laid over each other")
      ->required();
  command->add_option("--out", args->out, "Write one self-contained page")->type_name("FILE.html");
  command->add_option("--csv", args->csv, "Write the numbers of one run as CSV; - is stdout")
      ->type_name("FILE");
  command->add_option("--svg", args->svg_folder, "Write each figure as an SVG file")
      ->type_name("FOLDER");
  command->add_flag(
      "--live", args->live, "Serve the page on 127.0.0.1 while training, and keep it fresh");
  command->add_option("--port", args->port, "Port of --live; 0 takes a free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->footer(R"(Examples:
  tril report runs/quickstart --out report.html
  tril report runs/a runs/b runs/c --out compared.html
  tril report runs/quickstart --csv metrics.csv --svg figures
  tril report runs/quickstart --live)");
  return {command, [args] { return report(*args); }};
}

}  // namespace tril::cli
