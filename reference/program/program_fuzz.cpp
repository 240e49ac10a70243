// Programs that nobody would write: one that is read is written as it was read, and all that judges programs judges it.
#include <cstdint>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/program/program_json.hpp"
#include "reference/program/race_check.hpp"
#include "reference/program/validate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plumbline;
  const nlohmann::json value = nlohmann::json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return 0;
  try {
    const bool has_rings = value.is_object() && value.contains("rings");
    const program::Rings rings = has_rings ? program::rings_of_json(value.at("rings")) : program::Rings{};
    const program::Program read = program::program_of_json(value);
    if (program::json_of(program::program_of_json(program::json_of(read))) != program::json_of(read)) std::abort();
    (void)program::find_problems(read, rings);
    (void)program::find_races(read);
  } catch (const Error&) {
  }
  return 0;
}
