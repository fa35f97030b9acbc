#include "tril/train/step_graph.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <optional>

#include "tril/base/error.h"

// LibTorch 2.11 has none.
#if __has_include(<ATen/accelerator/Graph.h>)
#include <ATen/accelerator/Graph.h>
#define TRIL_HAS_GRAPHS
#endif

namespace tril {

#if defined(TRIL_HAS_GRAPHS)

struct StepGraph::Recording {
  explicit Recording(torch::Device device)
      : guard(device.type()), stream(guard.getStreamFromGlobalPool(device)) {}

  /// Work on `stream`, after all that the current stream has to do, and before what it gets next.
  void run_beside(torch::Device device, const std::function<void()>& work) {
    const c10::Stream current = guard.getStream(device);
    order(current, stream);
    {
      const c10::StreamGuard on_stream(stream);
      work();
    }
    order(stream, current);
  }

  void record(torch::Device device, const std::function<void()>& work) {
    run_beside(device, [&] {
      graph.emplace();
      graph->capture_begin();
      work();
      graph->capture_end();
    });
  }

  static void order(const c10::Stream& before, const c10::Stream& after) {
    c10::Event event(before.device_type());
    event.record(before);
    event.block(after);
  }

  c10::impl::VirtualGuardImpl guard;
  c10::Stream stream;
  std::optional<at::accelerator::Graph> graph;
};

#else

struct StepGraph::Recording {};

#endif

StepGraph::StepGraph(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
#if defined(TRIL_HAS_GRAPHS)
  recording_ = std::make_unique<Recording>(device);
#else
  throw ConfigError("train.cuda_graph: LibTorch " TORCH_VERSION
                    " cannot record a step; use 2.15, or set train.cuda_graph=false");
#endif
}

StepGraph::~StepGraph() = default;

void StepGraph::run(const std::function<void()>& work) {
  const int64_t run = runs_++;
  if (recording_ == nullptr) return work();
#if defined(TRIL_HAS_GRAPHS)
  if (run < kPlainRuns) return recording_->run_beside(device_, work);
  if (run == kPlainRuns) {
    try {
      recording_->record(device_, work);
    } catch (const c10::Error& error) {
      throw ConfigError(
          fmt::format("train.cuda_graph: this step cannot be recorded ({}). Set "
                      "train.cuda_graph=false",
                      error.what_without_backtrace()));
    }
  }
  recording_->graph->replay();
#endif
}

}  // namespace tril
