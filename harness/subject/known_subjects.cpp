#include "harness/subject/known_subjects.hpp"

#include "harness/subject/adapter/client.hpp"
#include "harness/suite/eligibility.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::subject {

std::vector<suite::KnownSubject> known_subjects() {
  return {
      {"backend local", suite::Door::backend, {{"capabilities", suite::description_of(comm::local_capabilities())}}},
      {"backend local on emulated devices",
       suite::Door::backend,
       {{"capabilities", suite::description_of(comm::local_capabilities(comm::Device::Kind::emulated))}},
       "emulated"},
      {"adapter reference", suite::Door::adapter, LocalAdapter(adapter::reference_service()).claims()},
      {"the reference's job", suite::Door::job, nlohmann::json::object()}};
}

}  // namespace plumbline::subject
