"""The content of a map: places, answers, regions and slots of one stream after one step."""
