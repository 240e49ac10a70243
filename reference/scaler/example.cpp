// fp16 training: a step whose gradients overflow is skipped and halves the scale.
#include <cstdio>
#include <limits>
#include <vector>

#include "reference/scaler/grad_scaler.hpp"

using namespace plumbline;

int main() {
  scaler::GradScaler scaler({.rule = {.init_scale = 1024}});
  for (const float gradient : {2.0F, std::numeric_limits<float>::infinity(), 4.0F}) {
    (void)scaler.scaled(1);  // what the backward starts from
    std::vector<float> gradients{gradient * static_cast<float>(scaler.scale())};
    const std::vector views{comm::Buffer::of(gradients)};
    const bool stepped = scaler.step(0, views, [] {});
    scaler.update();
    std::printf("gradient %g: %s, scale %g\n", gradients[0], stepped ? "stepped" : "skipped", scaler.scale());
  }
}
