/* SPDX-License-Identifier: MIT
 *
 * The memory of graphs' allocation nodes. A node has its address from the start; memory comes with the first launch or
 * upload, into a pool of the device, and leaves it by a trim alone.
 */
#ifndef VS_SIM_GRAPH_MEMORY_H
#define VS_SIM_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct vs_graph;

int vs_graph_memory_node(struct vs_graph *graph, int device, uint64_t size, uint64_t *ret_address);
int vs_graph_memory_free_node(struct vs_graph *graph, uint64_t address);
/* CU_OUT_OF_MEMORY; CU_INVALID_VALUE: memory of the launch before is in use, and is not to be freed by this one. */
int vs_graph_memory_launch(struct vs_graph *graph);
int vs_graph_memory_upload(struct vs_graph *graph);
void vs_graph_memory_drop(struct vs_graph *graph);
void vs_graph_memory_trim(int device);
/* By CUDA's number (CU_GRAPH_MEM_ATTR_*). */
int vs_graph_memory_attribute(int device, int attribute, bool set, uint64_t *value);

#endif
