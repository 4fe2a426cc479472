/* SPDX-License-Identifier: MIT */
#include "sim/graph_memory.h"

#include <stdlib.h>
#include <string.h>

#include "sim/books_private.h"
#include "sim/stream.h"

struct node {
	struct vs_graph *graph; /* NULL: gone, its memory is still in use */
	uint64_t address, size; /* whole granules */
	int device;
	bool backed, in_use, freed_inside;
	struct node *next;
};

static struct node *nodes;
static struct sums {
	uint64_t used, used_high, reserved, reserved_high;
	uint64_t spare; /* of reserved: no node's */
} sums[VS_DEVICES];

static void raise(uint64_t *value, uint64_t *high, uint64_t by)
{
	*value += by;
	if (*value > *high)
		*high = *value;
}

int vs_graph_memory_node(struct vs_graph *graph, int device, uint64_t size, uint64_t *ret_address)
{
	struct node *node;
	int r;

	if (!size || size > vs_books.cards[device].total)
		return size ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
	node = calloc(1, sizeof(*node));
	if (!node)
		return CU_OUT_OF_MEMORY;
	size = (size + VS_GRANULE - 1) / VS_GRANULE * VS_GRANULE;
	r = vs_books_addresses(device, size, VS_REGION_GRAPH, &node->address);
	if (r != CU_OK) {
		free(node);
		return r;
	}
	pthread_mutex_lock(&vs_books.lock);
	node->graph = graph;
	node->size = size;
	node->device = device;
	node->next = nodes;
	nodes = node;
	*ret_address = node->address;
	pthread_mutex_unlock(&vs_books.lock);
	return CU_OK;
}

int vs_graph_memory_free_node(struct vs_graph *graph, uint64_t address)
{
	int r = CU_INVALID_VALUE;

	pthread_mutex_lock(&vs_books.lock);
	for (struct node *node = nodes; node; node = node->next) {
		if (node->graph != graph || node->address != address || node->freed_inside)
			continue;
		node->freed_inside = true;
		r = CU_OK;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

static int back(struct node *node)
{
	struct sums *sum = &sums[node->device];
	int r = CU_OK;

	if (node->backed)
		return CU_OK;
	if (sum->spare >= node->size) {
		sum->spare -= node->size;
	} else {
		r = vs_books_charge(node->device, node->size);
		if (r == CU_OUT_OF_MEMORY && vs_pools_squeeze(node->device))
			r = vs_books_charge(node->device, node->size);
		if (r == CU_OK)
			raise(&sum->reserved, &sum->reserved_high, node->size);
	}
	node->backed = r == CU_OK;
	return r;
}

static void leave(struct node *node)
{
	node->in_use = false;
	sums[node->device].used -= node->size;
}

int vs_graph_memory_upload(struct vs_graph *graph)
{
	int r = CU_OK;

	pthread_mutex_lock(&vs_books.lock);
	for (struct node *node = nodes; node && r == CU_OK; node = node->next)
		if (node->graph == graph)
			r = back(node);
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

int vs_graph_memory_launch(struct vs_graph *graph)
{
	int r = CU_OK;

	pthread_mutex_lock(&vs_books.lock);
	for (struct node *node = nodes; node && r == CU_OK; node = node->next) {
		if (node->graph != graph || !node->in_use)
			continue;
		if (graph->frees_at_launch)
			leave(node);
		else
			r = CU_INVALID_VALUE;
	}
	for (struct node *node = nodes; node && r == CU_OK; node = node->next)
		if (node->graph == graph)
			r = back(node);
	for (struct node *node = nodes; node && r == CU_OK; node = node->next) {
		if (node->graph != graph)
			continue;
		raise(&sums[node->device].used, &sums[node->device].used_high, node->size);
		node->in_use = !node->freed_inside;
		if (node->freed_inside)
			sums[node->device].used -= node->size;
	}
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}

/* The node's memory goes to whoever asks next; its addresses are free. */
static void bury(struct node **link)
{
	struct node *node = *link;
	struct vs_region *region = vs_region_find(node->address);

	if (node->backed)
		sums[node->device].spare += node->size;
	if (region)
		vs_region_discard(region);
	*link = node->next;
	free(node);
}

int vs_graphs_give(uint64_t address)
{
	struct vs_region *region = vs_region_find(address);
	struct node **link = &nodes;

	if (!region || region->kind != VS_REGION_GRAPH)
		return CU_NOT_FOUND;
	while (*link && (*link)->address != address)
		link = &(*link)->next;
	if (!*link || !(*link)->in_use)
		return CU_INVALID_VALUE;
	leave(*link);
	if (!(*link)->graph)
		bury(link);
	return CU_OK;
}

void vs_graph_memory_drop(struct vs_graph *graph)
{
	struct node **link = &nodes;

	pthread_mutex_lock(&vs_books.lock);
	while (*link) {
		if ((*link)->graph != graph) {
			link = &(*link)->next;
		} else if ((*link)->in_use) {
			(*link)->graph = NULL;
			link = &(*link)->next;
		} else {
			bury(link);
		}
	}
	pthread_mutex_unlock(&vs_books.lock);
}

static void trim(int device)
{
	for (struct node *node = nodes; node; node = node->next) {
		if (node->device != device || !node->backed || node->in_use)
			continue;
		node->backed = false;
		sums[device].spare += node->size;
	}
	vs_books_discharge(device, sums[device].spare);
	sums[device].reserved -= sums[device].spare;
	sums[device].spare = 0;
}

void vs_graph_memory_trim(int device)
{
	pthread_mutex_lock(&vs_books.lock);
	trim(device);
	pthread_mutex_unlock(&vs_books.lock);
}

void vs_graphs_forget(int device)
{
	if (device < 0) {
		while (nodes) {
			struct node *next = nodes->next;

			free(nodes);
			nodes = next;
		}
		memset(sums, 0, sizeof(sums));
		return;
	}
	for (struct node *node = nodes; node; node = node->next)
		if (node->device == device)
			node->in_use = false;
	sums[device].used = 0;
	trim(device);
}

int vs_graph_memory_attribute(int device, int attribute, bool set, uint64_t *value)
{
	uint64_t *numbers[] = {&sums[device].used, &sums[device].used_high, &sums[device].reserved,
	                       &sums[device].reserved_high};
	int r = CU_OK;

	if (!value || attribute < 0 || attribute > 3)
		return CU_INVALID_VALUE;
	pthread_mutex_lock(&vs_books.lock);
	if (!set)
		*value = *numbers[attribute];
	else if (attribute % 2 == 0 || *value)
		r = CU_INVALID_VALUE; /* of the high marks alone, and to zero alone */
	else
		*numbers[attribute] = *numbers[attribute - 1];
	pthread_mutex_unlock(&vs_books.lock);
	return r;
}
