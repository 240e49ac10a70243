#include "harness/mutants/hollow_matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::mutants {

const std::string* HollowMatrix::reason_of(const std::string& subject, const std::string& requirement) const {
  const auto of_subject = truths_.find(subject);
  if (of_subject == truths_.end()) return nullptr;
  const auto found = of_subject->second.find(requirement);
  return found == of_subject->second.end() ? nullptr : &found->second;
}

void HollowMatrix::add(const std::string& subject, const std::string& component, const std::string& requirement,
                       bool deviated, bool violated) {
  Seen& seen = seen_[{subject, requirement}];
  seen.component = component;
  seen.judged = true;
  seen.deviated |= deviated;
  seen.violated |= violated;
}

void HollowMatrix::add_undecided(const std::string& subject, const std::string& component,
                                 const std::string& requirement) {
  seen_[{subject, requirement}].component = component;
}

bool HollowMatrix::is_decided(const std::string& subject, const std::string& requirement) const {
  const auto found = seen_.find({subject, requirement});
  if (found == seen_.end()) return false;
  return found->second.violated || (found->second.deviated && reason_of(subject, requirement) != nullptr);
}

bool HollowMatrix::is_met(const std::string& subject, const std::string& requirement) const {
  const auto found = seen_.find({subject, requirement});
  return found != seen_.end() && found->second.deviated;
}

std::vector<HollowRow> HollowMatrix::rows() const {
  std::map<std::pair<std::string, std::string>, HollowRow> rows;  // by subject and component
  for (const auto& [key, seen] : seen_) {
    const auto& [subject, requirement] = key;
    HollowRow& row = rows[{subject, seen.component}];
    row.subject = subject;
    row.component = seen.component;
    const std::string* const reason = reason_of(subject, requirement);
    if (!seen.judged) {
      row.undecided.insert(requirement);
    } else if (seen.violated) {
      row.failed.insert(requirement);
      if (reason != nullptr) row.in_vain.emplace(requirement, *reason);
    } else if (!seen.deviated) {
      row.unmet.insert(requirement);
    } else if (reason != nullptr) {
      row.allowed.emplace(requirement, *reason);
    } else {
      row.unexplained.insert(requirement);
    }
  }
  std::vector<HollowRow> list;
  for (auto& [key, row] : rows) list.push_back(std::move(row));
  return list;
}

std::string to_markdown(const std::vector<HollowRow>& rows) {
  std::string text =
      "| hollow subject | component | fail | pass | do not meet it | undecided | pass because it is true of the "
      "subject | "
      "must not pass |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  std::map<std::string, std::map<std::string, std::set<std::string>>> reasons;  // by subject: requirements by reason
  for (const HollowRow& row : rows) {
    std::vector<std::string> allowed;
    for (const auto& [id, reason] : row.allowed) {
      allowed.push_back(id);
      reasons[row.subject][reason].insert(id);
    }
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", row.subject, row.component, row.failed.size(),
                        row.allowed.size() + row.unexplained.size(), row.unmet.size(), row.undecided.size(),
                        fmt::join(allowed, ", "), fmt::join(row.unexplained, ", "));
  }
  for (const auto& [subject, of_subject] : reasons)
    for (const auto& [reason, ids] : of_subject)
      text += fmt::format("\n{}: {} ({})", subject, reason, fmt::join(ids, ", "));
  for (const HollowRow& row : rows)
    for (const auto& [id, reason] : row.in_vain)
      text += fmt::format("\n{}: {} fails, so hollow.toml lists it in vain: {}", row.subject, id, reason);
  return text + "\n";
}

}  // namespace plumbline::mutants
