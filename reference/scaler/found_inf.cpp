#include "reference/scaler/found_inf.hpp"

#include <array>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::scaler {

ModelGroups model_groups(int tensor, int pipeline, int data, int most) {
  std::int64_t world = 1;
  for (const auto& [name, size] :
       {std::pair("tensor", tensor), std::pair("pipeline", pipeline), std::pair("data", data)}) {
    if (size < 1) throw InvalidArgument(fmt::format("{} is {}; it must be at least 1", name, size));
    world *= size;
    if (world > most)
      throw InvalidArgument(
          fmt::format("{} tensor x {} pipeline x {} data ranks are more than {}", tensor, pipeline, data, most));
  }
  ModelGroups groups;
  const auto lists = [](int count) { return RankLists(static_cast<std::size_t>(count)); };
  groups.tensor = lists(pipeline * data);
  groups.pipeline = lists(tensor * data);
  groups.model = lists(data);
  groups.data = lists(tensor * pipeline);
  const auto at = [](RankLists& list, int index) -> std::vector<int>& { return list[static_cast<std::size_t>(index)]; };
  for (int rank = 0; rank < tensor * pipeline * data; ++rank) {
    const int column = rank % tensor, stage = rank / tensor % pipeline, replica = rank / tensor / pipeline;
    at(groups.tensor, replica * pipeline + stage).push_back(rank);
    at(groups.pipeline, replica * tensor + column).push_back(rank);
    at(groups.model, replica).push_back(rank);
    at(groups.data, stage * tensor + column).push_back(rank);
  }
  return groups;
}

std::vector<bool> spread(const RankLists& lists, std::vector<bool> found) {
  std::vector<bool> all = found;
  for (const std::vector<int>& list : lists) {
    bool any = false;
    for (const int rank : list) {
      if (static_cast<std::size_t>(rank) >= found.size())  // one below 0, too
        throw OutOfRange(fmt::format("a group has rank {}; there are {} ranks", rank, found.size()));
      any = any || found[static_cast<std::size_t>(rank)];
    }
    for (const int rank : list) all[static_cast<std::size_t>(rank)] = any;
  }
  return all;
}

std::vector<bool> skipping(Deciding deciding, const ModelGroups& groups, std::vector<bool> found) {
  switch (deciding) {
    case Deciding::local:
      break;
    case Deciding::tensor:
      return spread(groups.tensor, std::move(found));
    case Deciding::tensor_then_pipeline:
      return spread(groups.pipeline, spread(groups.tensor, std::move(found)));
    case Deciding::model:
      return spread(groups.model, std::move(found));
    case Deciding::model_and_data:
      return spread(groups.data, spread(groups.model, std::move(found)));
  }
  return found;
}

void agree_on_found_inf(comm::Communicator& group, std::span<float> flags, comm::Timeout timeout) {
  agree_on_found_inf(std::array{&group}, flags, timeout);
}

void agree_on_found_inf(std::span<comm::Communicator* const> groups, std::span<float> flags, comm::Timeout timeout) {
  agree_on_found_inf(groups, comm::Buffer{flags.data(), std::ssize(flags), comm::DType::f32}, timeout);
}

void agree_on_found_inf(std::span<comm::Communicator* const> groups, const comm::Buffer& flags, comm::Timeout timeout) {
  for (comm::Communicator* group : groups)
    if (group->size() > 1) group->all_reduce(flags, flags, comm::ReduceOp::max, timeout);
}

}  // namespace plumbline::scaler
