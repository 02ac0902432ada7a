#include "horovod_cpp/distributed/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "core/config/config.h"
#include "core/config/launch_info.h"
#include "core/config/log.h"
#include "core/observe/observability.h"
#include "core/system/core_binding.h"
#include "core/system/files.h"
#include "core/system/host.h"
#include "horovod_cpp/distributed/collectives/collectives.h"
#include "horovod_cpp/distributed/collectives/world.h"
#include "ops/connect/backends.h"

namespace hvd {
namespace {

struct Session {
  std::mutex entry;  // one init() at a time
  std::atomic<std::thread::id> in_init;

  std::mutex mutex;  // guards what follows; never held while waiting for other ranks
  std::optional<engine::CoreBinding> binding;  // as long as the world
  Config config;                               // of the world, or of the last one
  // Given to every world.
  std::function<void(const std::string&)> on_stall;
  std::function<std::string()> set_location_callback;
  bool homogeneous = true;
  bool exit_handler_set = false;
};

// Never destroyed: threads and exit handlers may ask for it until the very end.
Session& session() {
  static auto* instance = new Session;
  return *instance;
}

std::shared_ptr<engine::Observability> make_observability(const Config& config,
                                                          const Topology& topology) {
  engine::ObservabilityOptions options;
  options.timeline.max_bytes = std::min(config.timeline_max_mb, SIZE_MAX >> 20) << 20;
  options.timeline.mark_cycles = config.timeline_mark_cycles;
  options.flight_recorder.operations = config.flight_recorder_size;
  options.flight_recorder.base = engine::flight_recorder_base(config.flight_recorder_dir);
  options.flight_recorder.base_is_default = config.flight_recorder_dir.empty();
  return std::make_shared<engine::Observability>(topology.rank, topology.size, options);
}

// The other ranks are connected by now and learn why this one does not come.
std::shared_ptr<engine::Observability> observe(const Config& config,
                                               engine::ControlPlane& control) {
  try {
    auto observability = make_observability(config, control.topology());
    if (!config.timeline.empty()) observability->timeline->start(config.timeline);
    return observability;
  } catch (const Error& error) {
    control.abort(error.status());
    throw;
  } catch (const std::exception& error) {
    control.abort({StatusCode::kInternal, error.what()});
    throw;
  }
}

// Sets are equal whatever the order of their ranks.
std::string to_text(const std::vector<std::vector<Rank>>& sets) {
  std::string text;
  for (std::vector<Rank> ranks : sets) {
    std::sort(ranks.begin(), ranks.end());
    text += (text.empty() ? "" : ", ") + to_string(Shape(ranks.begin(), ranks.end()));
  }
  return "[" + text + "]";
}

// What the ranks compare besides their settings.
std::vector<engine::Term> terms_of(const InitOptions& options) {
  return {
      {"process_sets of init()", to_text(options.process_sets), to_text({}), Agreement::kEqual}};
}

std::shared_ptr<World> make_world(engine::Ports ports) {
  const Config& config = ports.config;
  WorldOptions options;
  options.mpi_threads = ports.mpi_threads;
  options.ended = ports.ended;
  options.gpu = ports.gpu;
  options.observability = observe(config, *ports.control);
  options.bucket_bytes = std::max<std::size_t>(config.fusion_threshold, 1);
  options.check_parameters = config.check_parameters;
  options.check_options = config.check_options;
  auto runtime =
      std::make_unique<engine::Runtime>(std::move(ports.control), std::move(ports.collectives),
                                        config, options.observability->observers());
  return std::make_shared<World>(std::move(runtime), std::move(options));
}

// What the ranks tell each other once they can.
struct Agreed {
  bool homogeneous = true;      // all hosts have equally many ranks
  std::int64_t job_number = 0;  // the one that rank 0 drew
};

Agreed agree(World& world) {
  const Topology& topology = world.topology();
  const std::int64_t mine[] = {topology.local_size, -topology.local_size,
                               topology.rank == 0 ? engine::draw_job_number() : 0};
  Tensor largest = Tensor::from(std::span(mine), {3});
  allreduce_(
      largest,
      {.op = ReduceOp::kMax, .name = "init.agree", .process_set = world.global_process_set()});
  const std::int64_t* const all = largest.data<std::int64_t>();
  return {all[0] == -all[1], all[2]};
}

// hvdrun names its jobs, and says itself where the ranks left something.
void begin_flight_recorder(World& world, std::int64_t job_number) {
  const std::string named = environment(engine::kJobVariable).value_or("");
  const bool by_launcher = engine::is_job_name(named) && !has_own_world();
  world.options().observability->recorder->begin(
      by_launcher ? named : engine::make_job_name(job_number), !by_launcher);
}

void at_exit(int status, void*) {
  bool failed = false;
  try {
    failed = status != 0 && is_initialized() && size() > 1;
    // No goodbye from the rank that fails first: those that wait for its data would end before it,
    // and the launcher would name them. They see it end instead.
    if (!failed || !world()->stopped().ok()) shutdown();
  } catch (const std::exception& error) {
    log(LogLevel::kError, std::string("shutdown at exit: ") + error.what());
  }
  if (!failed) return;
  std::fflush(nullptr);
  _exit(status);  // MPI_Finalize would wait for ranks that hang
}

}  // namespace

namespace {

void tell_end(World& world) {
  if (world.options().ended) world.options().ended(world.runtime().ended_in_error());
}

void leave(World& world) {
  try {
    world.shutdown();
  } catch (...) {
    tell_end(world);
    throw;
  }
  tell_end(world);
}

// One init() at a time.
class InitTurn {
 public:
  explicit InitTurn(Session& s) : session_(s), lock_(mutex_of(s)) {
    session_.in_init = std::this_thread::get_id();
  }
  ~InitTurn() { session_.in_init = std::thread::id(); }
  InitTurn(const InitTurn&) = delete;
  InitTurn& operator=(const InitTurn&) = delete;

 private:
  static std::mutex& mutex_of(Session& s) {
    if (s.in_init != std::this_thread::get_id()) return s.entry;
    throw InvalidArgumentError("init: called again, by a signal handler, while init() waits");
  }

  Session& session_;
  const std::lock_guard<std::mutex> lock_;
};

void listen(Session& s, World& world) {
  if (s.on_stall) world.runtime().notifier().on_stall(s.on_stall);
  if (s.set_location_callback)
    world.runtime().notifier().set_location_callback(s.set_location_callback);
}

void publish(Session& s, std::shared_ptr<World> world, Config config, bool homogeneous) {
  const std::lock_guard lock(s.mutex);
  listen(s, *world);  // to what was set meanwhile
  s.homogeneous = homogeneous;
  s.config = std::move(config);
  // Those of the engine's threads that the user bound stay where they are.
  if (s.config.bind_cores && s.config.thread_affinity.empty()) {
    s.binding.emplace(world->topology().local_rank, world->topology().local_size);
  }
  exchange_world(std::move(world));
  if (!s.exit_handler_set) {
    // Set after MPI was initialised, so that it runs before MPI's own handler.
    on_exit(at_exit, nullptr);
    s.exit_handler_set = true;
  }
}

}  // namespace

void init(const InitOptions& options) {
  Session& s = session();
  const InitTurn turn(s);
  if (is_initialized()) return;
  engine::open_standard_streams();
  engine::Ports ports = engine::connect(read_config(), terms_of(options));
  Config config = ports.config;
  std::shared_ptr<World> world = make_world(std::move(ports));
  {
    const std::lock_guard lock(s.mutex);
    listen(s, *world);
  }
  bool homogeneous = false;
  try {
    const Agreed agreed = agree(*world);
    homogeneous = agreed.homogeneous;
    begin_flight_recorder(*world, agreed.job_number);
    for (const std::vector<Rank>& ranks : options.process_sets) world->add_process_set(ranks);
  } catch (...) {
    const std::exception_ptr why = std::current_exception();
    try {
      leave(*world);
    } catch (...) {  // an interruption, which `why` says already
    }
    std::rethrow_exception(why);
  }
  publish(s, std::move(world), std::move(config), homogeneous);
}

void shutdown() {
  Session& s = session();
  std::shared_ptr<World> leaving;
  {
    const std::lock_guard lock(s.mutex);
    leaving = exchange_world(nullptr);
    s.binding.reset();
  }
  if (leaving == nullptr) return;
  leave(*leaving);
  if (s.config.stats && leaving->topology().rank == 0) {
    std::fprintf(stderr, "%s\n",
                 summary_line(leaving->options().observability->metrics->snapshot()).c_str());
  }
}

bool is_initialized() {
  return world_if_any() != nullptr;
}

bool mpi_enabled() {
  return world()->options().mpi_threads.has_value();
}

bool mpi_threads_supported() {
  const std::optional<bool> threads = world()->options().mpi_threads;
  if (!threads) throw InvalidArgumentError("mpi_threads_supported: this job does without MPI");
  return *threads;
}

std::vector<SettingInfo> config() {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  return describe_settings(world_if_any() == nullptr ? read_config() : s.config);
}

void on_stall(std::function<void(const std::string&)> report) {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  s.on_stall = std::move(report);
  if (const auto running = world_if_any()) running->runtime().notifier().on_stall(s.on_stall);
}

void set_location_callback(std::function<std::string()> where) {
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  s.set_location_callback = std::move(where);
  if (const auto running = world_if_any())
    running->runtime().notifier().set_location_callback(s.set_location_callback);
}

bool is_homogeneous() {
  static_cast<void>(world());  // throws before init()
  Session& s = session();
  const std::lock_guard lock(s.mutex);
  return s.homogeneous;
}

int rank() {
  return world()->topology().rank;
}
int size() {
  return world()->topology().size;
}
int local_rank() {
  return world()->topology().local_rank;
}
int local_size() {
  return world()->topology().local_size;
}
int cross_rank() {
  return world()->topology().cross_rank;
}
int cross_size() {
  return world()->topology().cross_size;
}

namespace {

std::shared_ptr<engine::Observability> observability() {
  return world()->options().observability;
}

}  // namespace

void start_timeline(const std::string& path, std::optional<bool> mark_cycles) {
  observability()->timeline->start(path, mark_cycles);
}

void stop_timeline() {
  observability()->timeline->stop();
}

MetricsSnapshot metrics() {
  return observability()->metrics->snapshot();
}

std::string summary() {
  return summary_text(metrics());
}

std::string metrics_text() {
  return to_prometheus_text(metrics());
}

void dump_flight_recorder(const std::string& path) {
  observability()->recorder->dump(path);
}

}  // namespace hvd
