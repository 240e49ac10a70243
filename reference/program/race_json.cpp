#include "reference/program/race_json.hpp"

#include <nlohmann/json.hpp>

namespace plumbline::program {

using nlohmann::json;

json json_of(const Race& race) {
  return {{"variable", race.variable}, {"first", race.first}, {"second", race.second}, {"why", race.why}};
}

json json_of(const std::vector<Race>& races) {
  json list = json::array();
  for (const Race& race : races) list.push_back(json_of(race));
  return list;
}

}  // namespace plumbline::program
