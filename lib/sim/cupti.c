/* SPDX-License-Identifier: MIT
 *
 * CUPTI: there is no device activity to trace. Subscribing is refused, and
 * profilers go on with what the host does.
 */
#include "sim/sim.h"

enum { SUCCESS = 0, INVALID_PARAMETER = 1, NOT_SUPPORTED = 27, MAX_LIMIT_REACHED = 12 };

/* CUPTI_API_VERSION of CUDA 13.2. */
VS_API int cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return INVALID_PARAMETER;
	*version = 130202;
	return SUCCESS;
}

VS_API int cuptiGetResultString(int result, const char **text)
{
	if (!text)
		return INVALID_PARAMETER;
	*text = result == SUCCESS ? "CUPTI_SUCCESS" : "CUPTI_ERROR_NOT_SUPPORTED";
	return SUCCESS;
}

VS_API int cuptiGetCallbackName(int domain, uint32_t id, const char **name)
{
	(void)domain;
	(void)id;
	if (!name)
		return INVALID_PARAMETER;
	*name = "";
	return SUCCESS;
}

/* No records have come: an iteration over them is at its end. */
VS_API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t size, void **record)
{
	(void)buffer;
	(void)size;
	(void)record;
	return MAX_LIMIT_REACHED;
}

VS_API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	if (!dropped)
		return INVALID_PARAMETER;
	*dropped = 0;
	return SUCCESS;
}

/* Nothing happens on the device: whatever is to be recorded, there is nothing to flush, to correlate or to end. */
VS_API int cuptiActivityFlushAll(uint32_t flags)
{
	(void)flags;
	return SUCCESS;
}
VS_ALIAS(cuptiFinalize, cuptiActivityFlushAll);
VS_ALIAS(cuptiUnsubscribe, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityDisable, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityEnable, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityEnableCudaEventDeviceTimestamps, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityEnableDriverApi, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityEnableRuntimeApi, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityPushExternalCorrelationId, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityRegisterCallbacks, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivityRegisterTimestampCallback, cuptiActivityFlushAll);
VS_ALIAS(cuptiActivitySetAttribute, cuptiActivityFlushAll);

VS_API int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *id)
{
	(void)kind;
	if (id)
		*id = 0;
	return SUCCESS;
}

#define VS_NONE(name)                                                                                                \
	VS_API int name(void)                                                                                        \
	{                                                                                                            \
		static atomic_flag said = ATOMIC_FLAG_INIT;                                                          \
                                                                                                                     \
		return vs_unsupported(&said, #name, NOT_SUPPORTED);                                                  \
	}
VS_NONE(cuptiSubscribe)
VS_NONE(cuptiEnableCallback)
VS_NONE(cuptiEnableDomain)
/* The event and metric interfaces, which left with CUDA 13. */
VS_NONE(cuptiEventGetAttribute)
VS_NONE(cuptiEventGetIdFromName)
VS_NONE(cuptiEventGroupGetAttribute)
VS_NONE(cuptiEventGroupReadEvent)
VS_NONE(cuptiEventGroupSetAttribute)
VS_NONE(cuptiEventGroupSetDisable)
VS_NONE(cuptiEventGroupSetEnable)
VS_NONE(cuptiEventGroupSetsCreate)
VS_NONE(cuptiEventGroupSetsDestroy)
VS_NONE(cuptiGetDeviceId)
VS_NONE(cuptiMetricEnumEvents)
VS_NONE(cuptiMetricGetAttribute)
VS_NONE(cuptiMetricGetIdFromName)
VS_NONE(cuptiMetricGetNumEvents)
VS_NONE(cuptiMetricGetValue)
VS_NONE(cuptiSetEventCollectionMode)
