// tril-tensors: the program with every command. `tril` starts it for those that need LibTorch.

#include <ATen/Context.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "program.h"
#include "tril/model/cpu_allocator.h"

namespace tril::cli {
namespace {

std::vector<CommandEntry> add_all_commands(CLI::App& app, CommonOptions& common) {
  return {add_train_command(app, common),
          add_launch_command(app, common),
          add_generate_command(app, common),
          add_evaluate_command(app, common),
          add_prepare_command(app, common),
          add_tokenizer_command(app, common),
          add_inspect_command(app, common),
          add_report_command(app, common),
          add_checkpoint_command(app, common),
          add_config_command(app, common),
          add_corpus_command(app, common),
          add_import_command(app, common),
          add_export_command(app, common),
          add_bench_command(app, common),
          add_doctor_command(app, common)};
}

/// LibTorch reports a lack of CPU memory as a plain error.
bool is_out_of_memory(const c10::Error& error) {
  const std::string what = error.what();
  return what.find("DefaultCPUAllocator") != std::string::npos ||
         what.find("not enough memory") != std::string::npos;
}

int report_libtorch_error(const std::exception& error, bool debug) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) {
    const std::string what = error.what();
    return report_error(kExitResources,
                        fmt::format("out of device memory: {}", what.substr(0, what.find('\n'))));
  }
  const auto* of_libtorch = dynamic_cast<const c10::Error*>(&error);
  if (of_libtorch != nullptr && is_out_of_memory(*of_libtorch)) {
    return report_error(kExitResources, "out of memory: try a smaller train.batch_size or model");
  }
  return report_bug(error, debug);
}

}  // namespace
}  // namespace tril::cli

int main(int argc, char** argv) {
  // Denormals cost a hundred times as much and mean nothing here. Per thread: set before any
  // worker.
  at::globalContext().setFlushDenormal(true);
  tril::use_caching_cpu_allocator();
  return tril::cli::run_program(
      argc, argv, tril::cli::add_all_commands, tril::cli::report_libtorch_error);
}
