// tril doctor: what this program is made of, and what it finds on this machine.

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "device.h"
#include "output.h"
#include "tril/base/file.h"
#include "tril/base/json.h"
#include "tril/train/automatic_precision.h"
#include "version.h"

namespace tril::cli {
namespace {

OrderedJson diagnose(const CommonOptions& common) {
  OrderedJson json;
  json["version"] = version_text();
  json["build"] = build_text();
  json["cpu_capability"] = at::get_cpu_capability();
  json["cpus"] = default_threads();
  json["threads"] = set_threads(common.threads.value_or(0));
  json["memory_available_bytes"] = available_memory_bytes();
  const std::string no_cuda = why_no_cuda();
  json["cuda"] = no_cuda.empty() ? "available" : no_cuda;
  const c10::Device device = choose_device(common.device.value_or("auto"));
  json["device"] = device.str();
  json["precision_auto"] = describe_automatic_precision(device);
  json["cache_folder"] = cache_folder().string();
  return json;
}

}  // namespace

CommandEntry add_doctor_command(CLI::App& app, CommonOptions& common) {
  auto* command =
      app.add_subcommand("doctor", "Versions, device, threads, and why CUDA is not there");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object on stdout");
  command->footer("Examples:\n  tril doctor\n  tril doctor --device cuda --json");
  return {command, [json, &common] {
            const OrderedJson result = diagnose(common);
            if (*json) {
              print_out("{}\n", dump_json(result));
              return 0;
            }
            for (const auto& [key, value] : result.items()) {
              print_out(
                  "{:<24} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
            }
            print_out("\n{}", at::get_parallel_info());
            return 0;
          }};
}

}  // namespace tril::cli
