// Gradients that travel as bytes or as products of narrow matrices, with one wrong step.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "conformance/bucketing/bucketing_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/bucketing/compression.hpp"

namespace plumbline::mutants {

using bucketing::MatrixShape;
using bucketing::PowerSgdSteps;
using bucketing::Quantisation;
using bucketing::QuantisationSteps;
using bucketing::ReducerSteps;

namespace {

std::string at_compression(const std::string& check, const std::string& parameters, int world) {
  return "bucketing.compression." + check + "[" + parameters + ",world=" + std::to_string(world) + "]";
}

// Comparisons with what is no number are false: it is below nothing, and above nothing.
Quantisation of_what_compares(std::span<const float> channel) {
  std::vector<float> finite;
  std::ranges::copy_if(channel, std::back_inserter(finite), [](float value) { return std::isfinite(value); });
  return bucketing::quantisation_of(finite);
}

// Columns get length 1, and keep their directions.
void scale_columns(std::span<double> matrix, std::int64_t columns, double epsilon) {
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t column = 0; column < width; ++column) {
    double square = 0;
    for (std::size_t i = column; i < matrix.size(); i += width) square += matrix[i] * matrix[i];
    for (std::size_t i = column; i < matrix.size(); i += width) matrix[i] /= std::sqrt(square) + epsilon;
  }
}

std::vector<Mutant> of_bytes() {
  const auto near = [](const char* channel, const char* magnitudes, int world) {
    return at_compression("bytes_are_near", std::string("channel=") + channel + ",magnitudes=" + magnitudes, world);
  };
  return {
      {"bkt.own_scale", "BUCKET-200", "all ranks' bytes are made numbers by this rank's scale",
       "scales are gathered, and the own one is at hand", near("bucket", "by_rank", 2), near("bucket", "by_rank", 1),
       "there is one scale", with([](QuantisationSteps& steps) {
         steps.undone_by = [](const Quantisation&, const Quantisation& own) { return own; };
       })},
      {"bkt.one_scale_for_all", "BUCKET-200", "all channels of a bucket have one scale",
       "quantization_pertensor_hook in place of quantization_perchannel_hook", near("100", "growing", 2),
       near("bucket", "growing", 2), "they are to",
       with([](QuantisationSteps& steps) { steps.channel = [](std::int64_t) { return bucketing::kWholeBucket; }; })},
      {"bkt.scale_for_each_number", "BUCKET-201", "each number has a scale of its own",
       "channels along the wrong axis of [channels, 512]", at_compression("bytes_travel", "channel=512", 2),
       at_compression("bytes_travel", "channel=bucket", 2), "there are no channels", with([](QuantisationSteps& steps) {
         steps.channel = [](std::int64_t channel) { return channel == bucketing::kWholeBucket ? channel : 1; };
       })},
      {"bkt.nan_below_all", "BUCKET-202", "what is no number is left out of the range, and becomes a byte",
       "a comparison with what is no number is false", at_compression("not_finite", "as=int8,what=nan", 2),
       at_compression("not_finite", "as=int8,what=nothing", 2), "all are finite",
       with([](QuantisationSteps& steps) { steps.quantisation = of_what_compares; })},
  };
}

std::vector<Mutant> of_products() {
  const auto feedback = [](const char* feedback, int world) {
    return at_compression("feedback", std::string("feedback=") + feedback + ",limit=flat", world);
  };
  const auto worth = [](const char* rate, const char* compressed = "at_once") {
    return at_compression("worth", std::string("rate=") + rate + ",compressed=" + compressed, 2);
  };
  return {
      {"bkt.nan_remembered", "BUCKET-202", "what is left over of a mean of no numbers is kept",
       "PyTorch powerSGD_hook: error_dict", at_compression("not_finite", "as=powersgd,what=nan", 2),
       at_compression("not_finite", "as=powersgd,what=nothing", 2), "all are finite",
       with([](PowerSgdSteps& steps) { steps.remembers = [](bool) { return true; }; })},
      {"bkt.directions_by_rank", "BUCKET-203", "each rank draws directions of its own",
       "a seed that the rank is added to, as for dropout", at_compression("low_rank", "rank=2,of=2", 2),
       at_compression("low_rank", "rank=2,of=2", 1), "there is one rank", with([](PowerSgdSteps& steps) {
         steps.seed = [](std::uint64_t seed, int gradient, int group_rank) {
           return bucketing::seed_of(seed + static_cast<std::uint64_t>(group_rank), gradient, group_rank);
         };
       })},
      {"bkt.directions_not_orthogonal", "BUCKET-203", "columns are divided by their length and left askew",
       "powerSGD_hook's _orthogonalize without the inner loop", at_compression("low_rank", "rank=2,of=2", 2),
       at_compression("low_rank", "rank=1,of=1", 2), "there is one column",
       with([](PowerSgdSteps& steps) { steps.orthonormalise_narrow = scale_columns; })},
      {"bkt.error_dropped", "BUCKET-204", "what an approximation lacks is forgotten", "use_error_feedback=False",
       feedback("on", 2), feedback("off", 2), "it is to be",
       with([](PowerSgdSteps& steps) { steps.keeps_error = [](bool) { return false; }; })},
      {"bkt.error_of_other_sign", "BUCKET-204", "what an approximation lacks is taken off the next gradient",
       "a difference the other way round", feedback("on", 3), feedback("off", 3), "none is kept",
       with([](PowerSgdSteps& steps) {
         steps.error = [](float own, float approximated) { return approximated - own; };
       })},
      {"bkt.cold_start", "BUCKET-205", "every step draws its directions anew", "warm_start=False",
       at_compression("warm_start", "directions=five", 2), at_compression("warm_start", "directions=two", 2),
       "any two directions will do",
       with([](PowerSgdSteps& steps) { steps.keeps_directions = [](bool) { return false; }; })},
      {"bkt.compressed_one_late", "BUCKET-206", "the first reduction that is to be compressed is not",
       "more in place of at least", at_compression("start", "start=1", 2), at_compression("start", "start=9", 2),
       "there are fewer", with([](PowerSgdSteps& steps) {
         steps.compresses = [](std::int64_t step, std::int64_t start) { return step > start; };
       })},
      {"bkt.rate_reached_is_enough", "BUCKET-207", "a gradient that becomes smaller by the rate alone is compressed",
       "at least in place of more", worth("2"), worth("1000"), "none comes near it", with([](PowerSgdSteps& steps) {
         steps.is_worth = [](const MatrixShape& shape, int rank, double least_rate) {
           return least_rate * rank * static_cast<double>(shape.rows + shape.columns) <=
                  static_cast<double>(shape.rows * shape.columns);
         };
       })},
      {"bkt.rate_reversed", "BUCKET-207", "gradients that are not worth it are compressed, and no others",
       "a comparison the other way round", worth("2"), worth("2", "later"), "nothing is compressed yet",
       with([](PowerSgdSteps& steps) {
         steps.is_worth = [](const MatrixShape& shape, int rank, double least_rate) {
           return !bucketing::is_worth_compressing(shape, rank, least_rate);
         };
       })},
  };
}

}  // namespace

std::vector<Mutant> compression_mutants() {
  std::vector<Mutant> all = of_bytes();
  std::ranges::move(of_products(), std::back_inserter(all));
  all.push_back({"bkt.finished_when_seen", "BUCKET-208",
                 "a bucket is finished as soon as this rank sees that its exchange is over",
                 "a callback that exchanges, called by whoever polls",
                 at_compression("finishes_in_turn", "told=yes", 2), at_compression("finishes_in_turn", "told=no", 2),
                 "nobody is told, and all are finished in the end",
                 with([](ReducerSteps& steps) { steps.may_complete_early = [](bool) { return true; }; })});
  return all;
}

}  // namespace plumbline::mutants
