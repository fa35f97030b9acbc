#include "bench_report.h"

#include <fmt/format.h>

#include "output.h"
#include "run_setup.h"
#include "tril/bench/phase_clock.h"
#include "tril/model/autocast.h"
#include "tril/train/progress.h"
#include "version.h"

namespace tril::cli {
namespace {

std::string giga(const Measured& m) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", m.median / 1e9, m.low / 1e9, m.high / 1e9);
}

OrderedJson to_json(const Measured& m) {
  return {{"median", m.median}, {"low", m.low}, {"high", m.high}};
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f} ms", 1e3 * seconds);
}

void print_model(int64_t parameters, const RunConfig& config) {
  const ModelConfig& m = config.model;
  print_out("model            {} parameters: C {}, T {}, B {}, L {}, H {}, V {}\n",
            format_count(static_cast<double>(parameters)),
            m.n_embed,
            m.context_length,
            config.train.batch_size,
            m.n_blocks,
            m.n_head,
            m.padded_vocab_size());
}

}  // namespace

void print_parallel_bench(const ParallelBenchResult& r,
                          const RunConfig& config,
                          const ResolvedChoices& choices) {
  print_out("processes        {}, each on {} with {} threads, {}, {}, shard {}\n",
            r.processes,
            choices.device.is_cpu() ? "the CPU" : "its own GPU",
            choices.threads,
            precision_name(choices.precision),
            enum_name(config.optimizer.name),
            enum_name(config.distributed.shard));
  print_model(r.parameters, config);
  print_out("step             {} ({} to {}), {} tokens in all, {} rounds\n",
            milliseconds(r.step_seconds.median),
            milliseconds(r.step_seconds.low),
            milliseconds(r.step_seconds.high),
            r.tokens_per_step,
            r.rounds);
  print_out("training         {} tokens/s ({} to {})\n",
            format_count(r.tokens_per_second.median),
            format_count(r.tokens_per_second.low),
            format_count(r.tokens_per_second.high));
  print_out("exchange         {} per step, {} sent by each process\n",
            milliseconds(r.exchange_seconds),
            format_bytes(static_cast<double>(r.bytes_per_step)));
  print_out("exposed          {} per step, {:.1f} %: waiting for others and for the network\n",
            milliseconds(r.exposed_seconds),
            100 * r.exposed_seconds / r.step_seconds.median);
  print_out("memory           {} peak, at most {} of weights, {} of moments, in each process\n",
            format_bytes(static_cast<double>(r.peak_memory_bytes)),
            format_bytes(static_cast<double>(r.weight_bytes)),
            format_bytes(static_cast<double>(r.moment_bytes)));
}

OrderedJson parallel_bench_json(const ParallelBenchResult& r,
                                const RunConfig& config,
                                const ResolvedChoices& choices) {
  OrderedJson json;
  json["version"] = version_text();
  json["device"] = choices.device.str();
  json["processes"] = r.processes;
  json["threads"] = choices.threads;
  json["precision"] = precision_name(choices.precision);
  json["optimizer"] = enum_name(config.optimizer.name);
  json["shard"] = enum_name(config.distributed.shard);
  json["parameters"] = r.parameters;
  json["tokens_per_step"] = r.tokens_per_step;
  json["rounds"] = r.rounds;
  json["step_seconds"] = to_json(r.step_seconds);
  json["tokens_per_second"] = to_json(r.tokens_per_second);
  json["exchange_seconds"] = r.exchange_seconds;
  json["exposed_seconds"] = r.exposed_seconds;
  json["bytes_per_step"] = r.bytes_per_step;
  json["weight_bytes"] = r.weight_bytes;
  json["moment_bytes"] = r.moment_bytes;
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  return json;
}

void print_bench_table(const BenchResult& r,
                       const RunConfig& config,
                       const ResolvedChoices& choices) {
  const std::string precision = precision_name(choices.precision);
  print_out("device           {}, {} threads, {}, {}\n",
            choices.device.str(),
            choices.threads,
            precision,
            enum_name(config.optimizer.name));
  print_model(r.parameters, config);
  print_out(
      "step             {} tokens, {:.4g} FLOPs per token\n", r.tokens_per_step, r.flops_per_token);
  print_out("measured         {} rounds, taking turns; median (lowest to highest)\n\n", r.rounds);

  print_out("{:<20} {:>22}   GFLOP/s alone, {}\n", "matrix product", "rows x in x out", precision);
  for (const ProductResult& p : r.products) {
    print_out("{:<20} {:>22}   {}\n",
              fmt::format("{} x{}", p.shape.name, p.shape.count),
              fmt::format("{} x {} x {}", p.shape.rows, p.shape.in, p.shape.out),
              giga(p.flops_per_second));
  }
  for (const auto& [name, speed] : r.gemm_flops_per_second) {
    print_out("{:<43}   {}\n", "all of a step, " + name, giga(speed));
  }

  print_out("\ntraining         {:.0f} tokens/s ({:.0f} to {:.0f}), {:.2f} ms per step\n",
            r.tokens_per_second.median,
            r.tokens_per_second.low,
            r.tokens_per_second.high,
            1e3 * r.step_seconds.median);
  print_out("                 {} GFLOP/s\n", giga(r.flops_per_second));
  print_out("share of GEMM    {:.1f} % ({:.1f} to {:.1f})\n\n",
            100 * r.share_of_gemm.median,
            100 * r.share_of_gemm.low,
            100 * r.share_of_gemm.high);

  print_out("{:<16} {:>10} {:>8}\n", "part of a step", "ms", "%");
  for (const std::string& name : phase_names()) {
    const double seconds = r.phase_seconds.at(name);
    print_out("{:<16} {:>10.3f} {:>8.1f}\n",
              name,
              1e3 * seconds,
              100 * seconds / r.observed_step_seconds);
  }
  print_out("\nmemory           {} at the peak, {} estimated\n",
            format_bytes(static_cast<double>(r.peak_memory_bytes)),
            format_bytes(r.estimated_memory_bytes));
  if (r.generated_tokens_per_second.median > 0) {
    print_out("generation       {:.0f} tokens/s ({:.0f} to {:.0f}), one sample at a time, fp32\n",
              r.generated_tokens_per_second.median,
              r.generated_tokens_per_second.low,
              r.generated_tokens_per_second.high);
  }
}

OrderedJson bench_json(const BenchResult& r,
                       const RunConfig& config,
                       const ResolvedChoices& choices) {
  OrderedJson json;
  json["version"] = version_text();
  json["device"] = choices.device.str();
  json["threads"] = choices.threads;
  json["precision"] = precision_name(choices.precision);
  json["model"] = tril::to_json(config).at("model");
  json["optimizer"] = enum_name(config.optimizer.name);
  json["batch_size"] = config.train.batch_size;
  json["parameters"] = r.parameters;
  json["tokens_per_step"] = r.tokens_per_step;
  json["flops_per_token"] = r.flops_per_token;
  json["rounds"] = r.rounds;
  json["tokens_per_second"] = to_json(r.tokens_per_second);
  json["step_seconds"] = to_json(r.step_seconds);
  json["flops_per_second"] = to_json(r.flops_per_second);
  for (const auto& [name, speed] : r.gemm_flops_per_second) {
    json["gemm_flops_per_second"][name] = to_json(speed);
  }
  json["share_of_gemm"] = to_json(r.share_of_gemm);
  for (const ProductResult& p : r.products) {
    json["products"].push_back({{"name", p.shape.name},
                                {"rows", p.shape.rows},
                                {"in", p.shape.in},
                                {"out", p.shape.out},
                                {"count", p.shape.count},
                                {"flops_per_second", to_json(p.flops_per_second)}});
  }
  for (const std::string& name : phase_names()) {
    json["phase_seconds"][name] = r.phase_seconds.at(name);
  }
  json["observed_step_seconds"] = r.observed_step_seconds;
  json["peak_memory_bytes"] = r.peak_memory_bytes;
  json["estimated_memory_bytes"] = r.estimated_memory_bytes;
  json["generated_tokens_per_second"] = to_json(r.generated_tokens_per_second);
  return json;
}

}  // namespace tril::cli
