#pragma once
// Runs as one self-contained page: curves, configuration, samples, comparison.

#include <string>
#include <utility>
#include <vector>

#include "tril/report/run_record.h"

namespace tril {

struct ReportOptions {
  bool live = false;  ///< the page asks its own server for "data.json" and draws anew
  /// Points per curve and run; of longer runs the lowest and highest of each stretch are drawn.
  size_t most_points = 5000;
};

/// The page. At least one run.
std::string html_report(const std::vector<RunRecord>& runs, const ReportOptions& options = {});

/// What its script draws; a live page fetches it.
OrderedJson report_data(const std::vector<RunRecord>& runs, const ReportOptions& options = {});

/// Each figure as an SVG that stands alone: {"loss", "<svg …"}, ….
std::vector<std::pair<std::string, std::string>> report_figures(const std::vector<RunRecord>& runs);

}  // namespace tril
