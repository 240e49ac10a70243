// harness/subject/invitation.hpp: the words by which ranks join a group of another process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::subject {

/// What a member of a group says to those who take part when it grows.
struct Invitation {
  std::uint64_t id = 0;      // of the growth: the same on all who take part, and no other's
  std::uint64_t group = 0;   // comm::Group::id of the old group
  std::vector<int> members;  // of the old group, as world ranks
  std::string words;         // the backend's own; one line

  /// A new one of that group, by its member `rank`. Any thread.
  [[nodiscard]] static Invitation to(const comm::Group& group, int rank, std::string words = "");
  /// "plumbline 1f2e3d4c5b6a7988 00c0ffee00c0ffee 0,2,1 WORDS".
  [[nodiscard]] std::string text() const;
  /// Throws InvalidArgument for other words than those of text().
  [[nodiscard]] static Invitation parse(const std::string& text);
  /// Throws InvalidArgument when this process has used the same one before. Any thread.
  void use() const;
  /// The ranks of the new group. Throws InvalidArgument for a newcomer that is a member, or no rank of a job of that
  /// size.
  [[nodiscard]] std::vector<int> with(std::span<const int> newcomers, int job_size) const;
};

}  // namespace plumbline::subject
