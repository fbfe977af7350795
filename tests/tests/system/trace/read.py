"""Reads a trace with Perfetto's own messages, and prints its tracks, slices and counters as JSON."""

import json
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())

tracks, slices, counters, open_slices = {}, [], [], {}
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        tracks[str(track.uuid)] = {
            "name": track.name,
            "process": str(track.parent_uuid or track.uuid),
            "labels": list(track.process.process_labels),
            "is_counter": track.HasField("counter"),
        }
        continue
    event, at_ns = packet.track_event, packet.timestamp
    uuid = str(event.track_uuid)
    begun = open_slices.setdefault(uuid, [])
    if event.type == TrackEvent.TYPE_SLICE_BEGIN:
        values = {value.name: value.uint_value for value in event.debug_annotations}
        slice = {
            "track": uuid,
            "name": event.name,
            "category": event.categories[0],
            "begin_ns": at_ns,
            "depth": len(begun),
            "step": values.get("step"),
            "bytes": values.get("bytes", values.get("sent bytes")),
            "flows": [str(flow) for flow in event.flow_ids],
            "ended_flows": [str(flow) for flow in event.terminating_flow_ids],
        }
        begun.append(slice)
        slices.append(slice)
    elif event.type == TrackEvent.TYPE_SLICE_END:
        begun.pop()["end_ns"] = at_ns
    elif event.type == TrackEvent.TYPE_COUNTER:
        kind = "double_counter_value" if event.HasField("double_counter_value") else "counter_value"
        counters.append({"track": uuid, "at_ns": at_ns, "value": getattr(event, kind)})

left = sum(map(len, open_slices.values()))
json.dump({"tracks": tracks, "slices": slices, "counters": counters, "open": left}, sys.stdout)
