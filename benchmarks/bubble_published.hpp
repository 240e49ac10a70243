// benchmarks/bubble_published.hpp: ratios of pipeline schedules that were published, and what they are here.
//
// Model   A claim compares two schedules: steps in a time, or activations at most. Where its configuration is told it
//         is taken, else one that is named. Times are equal and messages free in the simulation; what a claim measured
//         had neither, so the numbers differ, and the difference is told.
// Sources With each claim.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "benchmarks/bubble_report.hpp"

namespace plumbline::cli {

/// What has to be measured for the claims whose configuration has up to 8 ranks, each once. Equal `times` are what
/// published_text() simulates.
[[nodiscard]] std::vector<BubbleCase> published_cases(const schedules::StageTimes& times);

/// The table: claim, configuration, published, simulated, difference, and measured, of the fastest repetitions, where
/// `rows` have it. Then what is
/// claimed and cannot be had here, with the reason.
[[nodiscard]] std::string published_text(std::span<const BubbleRow> rows);

}  // namespace plumbline::cli
