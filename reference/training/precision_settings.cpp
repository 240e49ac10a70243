#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/names.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::training {
namespace {

bool splits_backward(const std::string& schedule) {
  const auto schedule_kind = schedules::find_schedule_kind(schedule);
  return !schedule_kind || schedules::traits_of(*schedule_kind).splits_backward;
}

}  // namespace

PrecisionSettings with_clip_of(const job::RunSpec& spec, PrecisionSettings settings) {
  if (!spec.clip) return settings;
  if (settings.clip_norm != 0 && settings.clip_norm != spec.clip->max_norm)
    throw InvalidArgument(
        fmt::format("clip norm {}; the specification has clip.max_norm = {}", settings.clip_norm, spec.clip->max_norm));
  if (settings.clip_norm != 0 && settings.norm_type != spec.clip->norm_type)
    throw InvalidArgument(fmt::format("norm type {}; the specification has clip.norm_type = {}", settings.norm_type,
                                      spec.clip->norm_type));
  settings.clip_norm = spec.clip->max_norm;
  settings.norm_type = spec.clip->norm_type;
  return settings;
}

bool is_mixed(const job::RunSpec& spec, const PrecisionSettings& settings) {
  return spec.run.dtype != "float32" || spec.scaler || settings.clip_norm > 0;
}

bool is_staged(const job::RunSpec& spec, const PrecisionSettings& settings) {
  return spec.parallel.pipeline > 1 || spec.parallel.tensor > 1 || spec.parallel.expert > 1 || is_mixed(spec, settings);
}

void require_possible(const job::RunSpec& spec, const PrecisionSettings& settings) {
  if (!(settings.clip_norm >= 0) || std::isinf(settings.clip_norm))
    throw InvalidArgument(fmt::format("clip norm {}; it must be a finite number above 0", settings.clip_norm));
  if (!(settings.norm_type > 0))
    throw InvalidArgument(fmt::format("norm type {}; it must be a number above 0, or inf", settings.norm_type));
  if (settings.clip_norm > 0 && (spec.rate_schedule || !spec.no_decay.empty() || !spec.frozen.empty()))
    throw InvalidArgument(fmt::format("clip norm {}; it must be 0 in a run with {}", settings.clip_norm,
                                      spec.rate_schedule    ? "[lr_schedule]"
                                      : spec.frozen.empty() ? "optimizer.no_decay"
                                                            : "model.frozen"));
  if (spec.scaler) {
    const auto first = static_cast<float>(spec.scaler->init_scale);
    if (!(first > 0) || std::isinf(first))
      throw InvalidArgument(
          fmt::format("scaler.init_scale = {}; it must be finite and above 0 in float32", spec.scaler->init_scale));
  }
  if (!settings.autocast) return;
  if (spec.run.dtype == "float32")
    throw InvalidArgument("autocast with run.dtype = 'float32'; it must be 'float16' or 'bfloat16'");
  if (splits_backward(spec.run.schedule))
    throw Unsupported(
        fmt::format("autocast: the reference's executor runs only schedules with whole backward passes, not "
                    "'{}'",
                    spec.run.schedule));
}

}  // namespace plumbline::training
