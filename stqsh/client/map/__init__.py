"""What a map shows: places, answers, regions and slots of one stream after one step."""
