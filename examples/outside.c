/* A program that is no member of the telemetry bus (telemetry.c, telemetry.yaml): it publishes what it is given, or prints what
 * others publish.
 *
 *     outside CLUSTER_FILE TOPIC           subscribes
 *     outside CLUSTER_FILE TOPIC TEXT      publishes */
#include <tram/topic.h>

#include <stdio.h>
#include <string.h>

static void show(void *ctx, uint64_t view, const struct tram_item *item, uint32_t count)
{
    (void)ctx, (void)view;
    for (uint32_t i = 0; i < count; i++)
        printf("host %u, %u bytes: %.*s\n", item[i].sender, item[i].bytes, (int)item[i].bytes,
               (const char *)item[i].data);
    fflush(stdout);
}

static void lost(void *ctx, uint64_t count)
{
    (void)ctx;
    if (count == TRAM_LOST_SOME)
        printf("perhaps some were lost\n");
    else
        printf("%llu were lost\n", (unsigned long long)count);
}

static int fail(const struct tram_error *e)
{
    fprintf(stderr, "outside: %s\n", e->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct tram_error e = {""};
    struct tram_cluster *cluster;
    struct tram_group_client *client;
    struct tram_client_topic *topic;
    if (argc < 3) {
        fprintf(stderr, "usage: outside CLUSTER_FILE TOPIC [TEXT]\n");
        return 2;
    }
    const char *text = argc > 3 ? argv[3] : NULL;
    const struct tram_client_topic_options o = {
        .role = text ? TRAM_PUBLISH : TRAM_SUBSCRIBE, .on_samples = show, .on_lost = lost};
    if (tram_cluster_load(argv[1], &cluster, &e) < 0 ||
        tram_group_client_open(cluster, NULL, &client, &e) < 0 ||
        tram_client_topic_open(client, argv[2], &o, &topic, &e) < 0)
        return fail(&e);
    if (text && tram_client_publish(topic, text, (uint32_t)strlen(text), NULL, &e) < 0)
        return fail(&e);
    while (text == NULL || tram_group_client_outstanding(client) > 0)
        if (tram_group_client_wait(client, UINT64_C(1000000000), &e) < 0)
            return fail(&e);
    tram_group_client_close(client);
    tram_cluster_free(cluster);
    return 0;
}
