#include "tril/data/hdf5_tokens.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cassert>
#include <string>

#include "tril/base/error.h"
#include "tril/base/file.h"
#include "tril/base/utf8.h"

namespace tril {
namespace {

// The part of HDF5's C interface that is needed, as its version 1.10 and later have it
// (H5public.h, H5Ipublic.h, H5Dpublic.h and so on).
using Id = int64_t;               // hid_t
using Status = int;               // herr_t: negative is failure
using Size = unsigned long long;  // hsize_t
constexpr Id kDefault = 0;        // H5P_DEFAULT, H5E_DEFAULT
constexpr unsigned kReadOnly = 0;
constexpr int kSelectSet = 0;
constexpr int kIntegerClass = 0;

/// The library's functions. Loaded once; a process without HDF5 files never loads it.
class Library {
 public:
  /// nullptr where there is none.
  static const Library* get() {
    static const Library library;
    return library.usable_ ? &library : nullptr;
  }

  Id (*file_open)(const char*, unsigned, Id) = nullptr;
  Status (*file_close)(Id) = nullptr;
  Id (*dataset_open)(Id, const char*, Id) = nullptr;
  Status (*dataset_close)(Id) = nullptr;
  Id (*dataset_space)(Id) = nullptr;
  Id (*dataset_type)(Id) = nullptr;
  Status (*dataset_read)(Id, Id, Id, Id, Id, void*) = nullptr;
  int (*type_class)(Id) = nullptr;
  Status (*type_close)(Id) = nullptr;
  int (*space_rank)(Id) = nullptr;
  int (*space_sizes)(Id, Size*, Size*) = nullptr;
  Id (*space_create)(int, const Size*, const Size*) = nullptr;
  Status (*space_select)(Id, int, const Size*, const Size*, const Size*, const Size*) = nullptr;
  Status (*space_close)(Id) = nullptr;
  Id native_int64 = -1;

 private:
  Library() {
    for (const char* name : {"libhdf5_serial.so.103",
                             "libhdf5.so.103",
                             "libhdf5_serial.so.310",
                             "libhdf5.so.310",
                             "libhdf5.so.200",
                             "libhdf5_serial.so",
                             "libhdf5.so"}) {
      handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) break;
    }
    if (handle_ == nullptr) return;
    Status (*open)() = nullptr;
    Status (*version)(unsigned*, unsigned*, unsigned*) = nullptr;
    Status (*set_error_print)(Id, void*, void*) = nullptr;
    bool all = load(open, "H5open") && load(version, "H5get_libversion") &&
               load(set_error_print, "H5Eset_auto2") && load(file_open, "H5Fopen") &&
               load(file_close, "H5Fclose") && load(dataset_open, "H5Dopen2") &&
               load(dataset_close, "H5Dclose") && load(dataset_space, "H5Dget_space") &&
               load(dataset_type, "H5Dget_type") && load(dataset_read, "H5Dread") &&
               load(type_class, "H5Tget_class") && load(type_close, "H5Tclose") &&
               load(space_rank, "H5Sget_simple_extent_ndims") &&
               load(space_sizes, "H5Sget_simple_extent_dims") &&
               load(space_create, "H5Screate_simple") &&
               load(space_select, "H5Sselect_hyperslab") && load(space_close, "H5Sclose");
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    // Before 1.10, ids had 32 bits.
    all = all && open() >= 0 && version(&major, &minor, &release) >= 0 &&
          (major > 1 || (major == 1 && minor >= 10));
    if (!all) return;
    const auto* type = static_cast<const Id*>(::dlsym(handle_, "H5T_NATIVE_LLONG_g"));
    if (type == nullptr) return;
    native_int64 = *type;
    set_error_print(kDefault, nullptr, nullptr);  // our messages say it
    usable_ = true;
  }

  template <typename Function>
  bool load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    return function != nullptr;
  }

  void* handle_ = nullptr;
  bool usable_ = false;
};

}  // namespace

struct Hdf5Tokens::Impl {
  const Library* h5 = nullptr;
  std::string path;
  Id file = -1;
  Id dataset = -1;
  int64_t size = 0;

  ~Impl() {
    if (dataset >= 0) h5->dataset_close(dataset);
    if (file >= 0) h5->file_close(file);
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(fmt::format("'{}': {}", path, why));
  }
  void open_dataset();
};

void Hdf5Tokens::Impl::open_dataset() {
  dataset = h5->dataset_open(file, "tokens", kDefault);
  if (dataset < 0) refuse("it holds no dataset `tokens`, which should be a list of token ids");
  const Id type = h5->dataset_type(dataset);
  const bool is_integer = type >= 0 && h5->type_class(type) == kIntegerClass;
  if (type >= 0) h5->type_close(type);
  if (!is_integer) refuse("its dataset `tokens` does not hold integers");
  const Id space = h5->dataset_space(dataset);
  const int rank = space >= 0 ? h5->space_rank(space) : -1;
  Size n = 0;
  if (rank == 1) h5->space_sizes(space, &n, nullptr);
  if (space >= 0) h5->space_close(space);
  if (rank != 1) {
    refuse(
        fmt::format("its dataset `tokens` has {} dimensions, expected one: a stream of ids, not "
                    "packed examples",
                    rank));
  }
  size = static_cast<int64_t>(n);
}

Hdf5Tokens::Hdf5Tokens(const std::filesystem::path& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = escape_for_message(path.string(), 4096);
  const MappedFile readable(path, FileRole::kData);  // says why a file cannot be opened at all
  impl_->h5 = Library::get();
  if (impl_->h5 == nullptr) {
    impl_->refuse(
        "reading HDF5 needs libhdf5 (1.10 or later), which is not on this machine: "
        "install it (Debian: apt-get install libhdf5-103-1), or write the ids as 2-byte "
        "integers and use data.format uint16");
  }
  impl_->file = impl_->h5->file_open(path.c_str(), kReadOnly, kDefault);
  if (impl_->file < 0) impl_->refuse("it is not a readable HDF5 file (damaged, or cut short?)");
  impl_->open_dataset();
}

Hdf5Tokens::~Hdf5Tokens() = default;

int64_t Hdf5Tokens::size() const {
  return impl_->size;
}

void Hdf5Tokens::read(int64_t start, std::span<int64_t> out) const {
  assert(start >= 0 && static_cast<int64_t>(out.size()) <= size() - start);
  if (out.empty()) return;
  const Library& h5 = *impl_->h5;
  const Size first = static_cast<Size>(start);
  const Size count = out.size();
  const Id in_file = h5.dataset_space(impl_->dataset);
  const Id in_memory = h5.space_create(1, &count, nullptr);
  const bool ok =
      in_file >= 0 && in_memory >= 0 &&
      h5.space_select(in_file, kSelectSet, &first, nullptr, &count, nullptr) >= 0 &&
      h5.dataset_read(impl_->dataset, h5.native_int64, in_memory, in_file, kDefault, out.data()) >=
          0;
  if (in_memory >= 0) h5.space_close(in_memory);
  if (in_file >= 0) h5.space_close(in_file);
  if (!ok) {
    impl_->refuse(
        fmt::format("its ids {} to {} cannot be read: the file is damaged, or uses a "
                    "compression that libhdf5 does not have here",
                    start,
                    start + static_cast<int64_t>(count) - 1));
  }
}

bool has_hdf5() {
  return Library::get() != nullptr;
}

}  // namespace tril
