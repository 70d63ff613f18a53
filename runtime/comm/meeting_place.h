// Where rank 0 is found: one class a kind of rendezvous. Main types: Place, MeetingPlace. Depends on rendezvous.
#pragma once

#include "runtime/comm/rendezvous.h"

namespace zeroplan::runtime {

/// An address at which rank 0 may listen.
struct Place {
  std::string host;
  std::uint16_t port = 0;
};

/// An endpoint's places, those that answer fastest first.
std::vector<Place> places_of(const Endpoint& endpoint);

class MeetingPlace {
 public:
  virtual ~MeetingPlace() = default;
  virtual std::uint64_t rank() const = 0;
  /// Joins only processes of the same run; known after `announce` or `look_up`.
  virtual std::string key() const = 0;
  /// Rank 0 listens, and says where.
  virtual Listener announce() = 0;
  /// Other ranks: where rank 0 may be; nothing as long as that is not known.
  virtual std::vector<Place> look_up() = 0;
  /// Rank 0, when all have come.
  virtual void close() {}
};

std::unique_ptr<MeetingPlace> make_meeting_place(const RendezvousSettings& settings, MpiSession* mpi);

}  // namespace zeroplan::runtime
