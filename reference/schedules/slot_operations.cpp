// schedules.slots: in which buffer of its rank each activation is kept.

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

json slots_of_rows(const Arguments& arguments) {
  schedules::Schedule schedule;
  for (const std::string& row : arguments.get<std::vector<std::string>>("ranks"))
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
  schedules::ActivationSlots found = schedules::activation_slots(schedule, arguments.get<bool>("forward_only", false));
  json slots = json::array();
  for (const std::vector<int>& row : found.slots) {
    json& list = slots.emplace_back(json::array());
    for (const int slot : row) list.push_back(slot == schedules::kNoSlot ? json() : json(slot));
  }
  return {{"slots", std::move(slots)}, {"counts", std::move(found.counts)}};
}

}  // namespace

void add_slot_operations(AdapterService& service) {
  service.add(
      {"schedules.slots",
       "assigns each activation of a schedule to a slot of its rank: the lowest free one from its forward on",
       {"plumbline"},
       {{"ranks", "list of text [ranks]", "CSV row of each rank's actions, as 0F0,0B0"},
        {"forward_only", "boolean", "an activation is kept during its forward alone", "false"}},
       {{"slots", "list of list of any [ranks][actions]",
         "slot of each computation's activation, in the order of the row; null of other cells; a cell of joined "
         "actions has one entry for each"},
        {"counts", "list of integer [ranks]", "slots that each rank needs"}},
       R"({"ranks": ["0F0,0F1,0B0,0F2,0B1,0B2"]})",
       {{"invalid_argument", "a row is malformed; the message names line and column"},
        {"invalid_argument",
         "a forward's activation is already there, or another computation's is not; the message names rank and "
         "position"}}},
      slots_of_rows);
}

}  // namespace plumbline::adapter
