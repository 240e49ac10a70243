// Adapters whose answers are right of small questions, and wrong of large ones.
#include <sstream>

#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void say_invalid(const json&, json& result) { result["valid"] = false; }
void one_peak_short(const json&, json& result) {
  result["peak_activations"][0] = result["peak_activations"][0].get<int>() - 1;
}
void lose_an_action(const json&, json& result) {
  std::string row = result["compute_only"].back();
  row.erase(row.rfind(','));
  result["compute_only"].back() = row;
}
void all_forwards_first(const json& args, json& result) {
  if (args.at("schedule") != "Schedule1F1B") return;
  for (json& row : result["compute_only"]) {
    std::string forwards, rest, cell;
    for (std::istringstream cells(row.get<std::string>()); std::getline(cells, cell, ',');)
      (cell.find('F') != std::string::npos ? forwards : rest) += cell + ",";
    row = forwards + rest.substr(0, rest.size() - 1);
  }
}

}  // namespace

std::vector<Mutant> schedules_size_mutants() {
  return {
      past_size({"sch.refuses_past_24", "SCHED-045", "valid plans of more than 24 micro-batches are not valid",
                 "schedules.sizes.check", "39", "9",
                 results_past("schedules.check", number_in("microbatches"), 24, say_invalid)}),
      past_size({"sch.peaks_short_past_20", "SCHED-045",
                 "of more than 20 micro-batches, rank 0 keeps one activation fewer", "schedules.sizes.check", "512",
                 "9", results_past("schedules.check", number_in("microbatches"), 20, one_peak_short)}),
      past_size({"sch.loses_work_past_100", "SCHED-015",
                 "of more than 100 micro-batches, the last computation is left out", "schedules.sizes.generate",
                 "148,schedule=1f1b", "39,schedule=1f1b",
                 results_past("schedules.generate", number_in("microbatches"), 100, lose_an_action)}),
      past_size({"sch.gpipe_for_1f1b_past_100", "SCHED-024",
                 "under the convention torch, 1F1B of more than 100 micro-batches has the order of GPipe",
                 "schedules.sizes.generate_torch", "148,schedule=Schedule1F1B", "39,schedule=Schedule1F1B",
                 results_past("schedules.generate", number_in("microbatches"), 100, all_forwards_first)}),
  };
}

}  // namespace plumbline::mutants
