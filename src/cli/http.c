#include "cli/http.h"

#include "api/api.h"
#include "cli/http_page.h"
#include "cli/http_watch.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 250, CONNECTIONS_MAX = 64, IDLE_S = 10 };

struct http {
    struct MHD_Daemon *daemon;
    struct http_watch *watch;
    int host;
    pthread_mutex_t lock; /* of watch, and: */
    pthread_cond_t wake;
    bool ends;
    pthread_t looks;
    bool looking;
};

/* ---- what is asked for ---- */

enum what { WHAT_PAGE, WHAT_METRICS, WHAT_STATUS, WHAT_HISTORY, WHAT_HEALTH };

static const struct {
    const char *path, *type;
} served[] = {
    [WHAT_PAGE] = {"/", "text/html; charset=utf-8"},
    [WHAT_METRICS] = {"/metrics", "text/plain; version=0.0.4; charset=utf-8"},
    [WHAT_STATUS] = {"/status.json", "application/json"},
    [WHAT_HISTORY] = {"/history.json", "application/json"},
    [WHAT_HEALTH] = {"/health", "text/plain; charset=utf-8"},
};

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type,
                              struct MHD_Response *r)
{
    if (r == NULL)
        return MHD_NO;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy",
                            "default-src 'self'; style-src 'unsafe-inline'; "
                            "script-src 'unsafe-inline'; frame-ancestors 'none'");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result rc = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned code, const char *text)
{
    return answer(c, code, served[WHAT_HEALTH].type,
                  MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                                  MHD_RESPMEM_PERSISTENT));
}

/* True, but for a /health that is not well. */
static bool render(struct http *h, enum what what, FILE *f)
{
    bool well = true;

    pthread_mutex_lock(&h->lock);
    http_watch_sample(h->watch);
    if (what == WHAT_METRICS)
        http_watch_metrics(h->watch, f);
    else if (what == WHAT_STATUS)
        http_watch_status(h->watch, f);
    else if (what == WHAT_HISTORY)
        http_watch_history(h->watch, f);
    else
        well = http_watch_health(h->watch, h->host, f);
    pthread_mutex_unlock(&h->lock);
    return well;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *path,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    struct http *h = ctx;
    enum what what = 0;
    char *text = NULL;
    size_t bytes = 0;

    (void)version, (void)upload, (void)request;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        *upload_bytes = 0;
        return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "nothing can be changed here\n");
    }
    while (what < sizeof served / sizeof served[0] && strcmp(path, served[what].path) != 0)
        what++;
    if (what == sizeof served / sizeof served[0])
        return refuse(c, MHD_HTTP_NOT_FOUND,
                      "there are /, /metrics, /health, /status.json and /history.json\n");
    if (what == WHAT_PAGE)
        return answer(c, MHD_HTTP_OK, served[what].type,
                      MHD_create_response_from_buffer(http_page_bytes, (void *)(uintptr_t)http_page,
                                                      MHD_RESPMEM_PERSISTENT));
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return refuse(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
    bool well = render(h, what, f);
    fclose(f);
    return answer(c, well ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, served[what].type,
                  MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE));
}

/* ---- looking, also when nobody asks ---- */

static void *look(void *ctx)
{
    struct http *h = ctx;

    pthread_mutex_lock(&h->lock);
    while (!h->ends) {
        struct timespec until;
        http_watch_sample(h->watch);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&h->wake, &h->lock, &until);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* ---- beginning and end ---- */

static int listen_at(struct http *h, const struct http_options *o, struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    char port[8];

    snprintf(port, sizeof port, "%u", o->port);
    int rc = getaddrinfo(o->address, port, &hints, &found);
    if (rc != 0)
        return err_set(e, ERR_NOTFOUND, "%s: %s", o->address, gai_strerror(rc));
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
    if (found->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    errno = 0;
    h->daemon =
        MHD_start_daemon(flags, o->port, NULL, NULL, on_request, h, MHD_OPTION_SOCK_ADDR,
                         found->ai_addr, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    freeaddrinfo(found);
    return h->daemon ? 0 : err_sys(e, "listen at %s port %u", o->address, o->port);
}

static int begin(struct http *h, const struct tram_cluster *c, const struct http_options *o,
                 struct err *e)
{
    h->watch = http_watch_open(c, e);
    if (h->watch == NULL)
        return -1;
    if (listen_at(h, o, e) < 0)
        return -1;
    h->looking = pthread_create(&h->looks, NULL, look, h) == 0;
    return h->looking ? 0 : err_set(e, ERR_NOMEM, "no thread");
}

struct http *http_open(const struct tram_cluster *c, const struct http_options *o, struct err *e)
{
    struct http *h = calloc(1, sizeof(*h));
    pthread_condattr_t monotonic;
    sigset_t all, before;

    if (h == NULL) {
        err_set(e, ERR_NOMEM, "no memory");
        return NULL;
    }
    h->host = o->host;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&h->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    /* Signals are for the thread that opens it. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = begin(h, c, o, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        return h;
    http_close(h);
    return NULL;
}

void http_close(struct http *h)
{
    if (h == NULL)
        return;
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    if (h->looking) {
        pthread_mutex_lock(&h->lock);
        h->ends = true;
        pthread_cond_signal(&h->wake);
        pthread_mutex_unlock(&h->lock);
        pthread_join(h->looks, NULL);
    }
    http_watch_close(h->watch);
    pthread_cond_destroy(&h->wake);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

struct http *http_open_host(const struct tram_cluster *c, const char *host)
{
    int h = tram_cluster_host(c, host);
    struct err e = {""};

    if (h < 0 || c->conf->host[h].http_port == 0)
        return NULL;
    const struct http_options o = {
        .address = c->conf->host[h].http, .port = c->conf->host[h].http_port, .host = h};
    struct http *http = http_open(c, &o, &e);
    if (http == NULL)
        fprintf(stderr, "tram host: %s: http: %s; it goes on without\n", host, e.text);
    return http;
}
