#include <span>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/safetensors.hpp"
#include "reference/training/averaging.hpp"

namespace plumbline::training {
namespace {

constexpr std::pair<const char*, std::vector<float> AveragedStep::*> kLists[] = {
    {"before", &AveragedStep::before},     {"seen", &AveragedStep::seen},
    {"gradient", &AveragedStep::gradient}, {"mixed", &AveragedStep::mixed},
    {"updated", &AveragedStep::updated},   {"after", &AveragedStep::after},
    {"halves", &AveragedStep::halves},     {"buffers_seen", &AveragedStep::buffers_seen},
    {"buffers", &AveragedStep::buffers}};

std::string name_in_file(std::size_t step, const char* what) { return fmt::format("step{}/{}", step, what); }

}  // namespace

std::filesystem::path averaging_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("averaging{}.safetensors", rank);
}

void write_averaged_steps(const std::vector<AveragedStep>& steps, const std::filesystem::path& folder, int rank) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw RuntimeFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
  job::SafetensorsWriter writer;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const auto& [what, list] : kLists) {
      const std::vector<float>& values = steps[i].*list;
      if (!values.empty())
        writer.add<float>(name_in_file(i, what), {static_cast<std::int64_t>(values.size())}, std::span(values));
    }
    const double numbers[] = {steps[i].loss, steps[i].weight_before, steps[i].weight};
    writer.add<double>(name_in_file(i, "numbers"), {3}, std::span(numbers));
  }
  writer.write(averaging_file(folder, rank));
}

std::vector<AveragedStep> read_averaged_steps(const std::filesystem::path& folder, int rank) {
  const job::SafetensorsReader reader(averaging_file(folder, rank));
  std::vector<AveragedStep> steps;
  while (reader.find(name_in_file(steps.size(), "numbers")) != nullptr) {
    AveragedStep step;
    for (const auto& [what, list] : kLists)
      if (const std::string name = name_in_file(steps.size(), what); reader.find(name) != nullptr)
        step.*list = reader.read<float>(name);
    const std::vector<double> numbers = reader.read<double>(name_in_file(steps.size(), "numbers"));
    if (numbers.size() != 3 || step.before.empty())
      throw InvalidArgument(fmt::format("'{}': step {} is not of this form", reader.file().string(), steps.size()));
    step.loss = numbers[0];
    step.weight_before = numbers[1];
    step.weight = numbers[2];
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace plumbline::training
