#include "harness/record/host_load.hpp"

#include <fstream>
#include <sstream>

namespace plumbline::record {

HostLoad::HostLoad() : begin_(times()) {}

// user nice system idle iowait irq softirq steal; what follows is part of the first two.
HostLoad::Times HostLoad::times() {
  constexpr int kFields = 8, kSteal = 7;
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line);
  std::string name;
  fields >> name;
  Times times;
  std::uint64_t ticks = 0;
  for (int field = 0; field < kFields && fields >> ticks; ++field) {
    times.all += ticks;
    if (field == kSteal) times.steal = ticks;
  }
  return times;
}

std::map<std::string, double> HostLoad::until_now() const {
  std::map<std::string, double> facts;
  const Times now = times();
  if (now.all > begin_.all && now.steal >= begin_.steal)
    facts["steal"] = static_cast<double>(now.steal - begin_.steal) / static_cast<double>(now.all - begin_.all);
  std::ifstream file("/proc/loadavg");
  if (double load = 0; file >> load) facts["load"] = load;
  return facts;
}

}  // namespace plumbline::record
