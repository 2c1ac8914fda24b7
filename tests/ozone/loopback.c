/* Preloaded into the cluster's JVM: some of Ozone's servers know no address to listen on but "any". A bind to it becomes one to
 * 127.0.0.1, so that nothing of a test can be reached from outside. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef int bind_function(int, const struct sockaddr *, socklen_t);

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  bind_function *next = (bind_function *)dlsym(RTLD_NEXT, "bind");
  if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in local = *(const struct sockaddr_in *)address;
    if (local.sin_addr.s_addr == htonl(INADDR_ANY)) {
      local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      return next(fd, (const struct sockaddr *)&local, sizeof local);
    }
  }
  return next(fd, address, length);
}
